#include "muster/serving/protocols/rest_api.h"
#include "muster/base/semaphore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "muster/serving/core/service_fake.h"
#include "muster/serving/protocols/open_inference/inference_words.h"
#include "muster/testing/eventually.h"

namespace muster::serving {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RestApiTest : public ::testing::Test {
 protected:
  HttpResponse ask(const std::string& method, const std::string& target, std::string body = "",
                   Headers headers = {}) {
    RestApi api(service_, options_);
    return api.handle({.method = method,
                       .target = target,
                       .headers = std::move(headers),
                       .body = std::move(body),
                       .is_from_this_host = from_this_host_});
  }
  HttpResponse post(const std::string& target, std::string body, Headers headers = {}) {
    return ask("POST", target, std::move(body), std::move(headers));
  }
  // "400 Missing model name"
  static std::string error_of(const HttpResponse& answer) {
    return fmt::format("{} {}", answer.status,
                       json::parse(answer.body).at("error").get<std::string>());
  }

  FakeService fake_;
  Service& service_ = fake_.service();
  RestOptions options_;
  bool from_this_host_ = true;
};

/// Waits for the answer to a request that was begun.
class Reply final : public HttpReply {
 public:
  void reply(HttpResponse answer) override {
    answer_ = std::move(answer);
    there_.release();
  }
  HttpResponse wait() {
    there_.acquire();
    return std::move(answer_);
  }

 private:
  HttpResponse answer_;
  Semaphore there_{0};
};

TEST_F(RestApiTest, AnswersPredictionsThatItBeginsAsThoseThatItWaitsFor) {
  options_.cors = true;
  RestApi api(service_, options_);
  const std::string many = fmt::format(R"({{"instances": [{}1]}})", std::string(4000, ' '));
  const std::pair<std::string, std::string> asked[] = {
      {"/v1/models/m:predict", R"({"instances": [1, 2.5]})"},
      {"/v1/models/m:predict", many},
      {"/v1/models/m:predict", R"({"signature_name": "none", "instances": [1]})"},
      {"/v1/models/m:predict", "nonsense"},
      {"/v1/models/none:predict", R"({"instances": [1]})"},
      {"/v1/models:predict", ""},
      {"/v1/models/m:classify", R"({"signature_name": "classify", "examples": [{"a": 1}]})"},
      {"/v1/models/m:regress", R"({"signature_name": "regress", "examples": [{"a": 1}]})"},
      {"/v1/projects/p/models/m/versions/v1:predict", R"({"instances": [1]})"},
      {"/v1/projects/p/models/m:predict", R"({"instances": ["text"]})"},
      {"/v2/models/m/infer",
       R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]})"},
      {"/v2/models/m/infer", R"({"inputs": []})"}};
  for (const auto& [target, body] : asked) {
    const HttpResponse waited = api.handle({.method = "POST", .target = target, .body = body});
    const auto reply = std::make_shared<Reply>();
    HttpRequest request{.method = "POST", .target = target, .body = body};
    ASSERT_TRUE(api.start(request, reply)) << target;
    const HttpResponse begun = reply->wait();
    EXPECT_EQ(begun.status, waited.status) << target << " " << body;
    EXPECT_EQ(begun.body, waited.body) << target << " " << body;
    EXPECT_EQ(begun.content_type, waited.content_type);
    EXPECT_EQ(begun.headers, waited.headers);
  }
}

TEST_F(RestApiTest, BeginsNothingThatTakesLong) {
  RestApi api(service_, options_);
  const auto reply = std::make_shared<Reply>();
  const HttpRequest left[] = {
      {.method = "GET", .target = "/v1/models/m"},
      {.method = "POST", .target = "/v2/repository/models/m/load"},
      {.method = "POST", .target = "/v1/models/m:predict", .body = std::string(1 << 20, ' ')},
      {.method = "POST",
       .target = "/v1/models/m:predict",
       .headers = {{"Content-Encoding", "gzip"}},
       .body = "x"}};
  for (HttpRequest request : left) {
    const std::string body = request.body;
    EXPECT_FALSE(api.start(request, reply)) << request.target;
    EXPECT_EQ(request.body, body);
  }
}

TEST_F(RestApiTest, PredictsRowsAndColumnsOfAnyVersion) {
  EXPECT_EQ(post("/v1/models/m:predict", R"({"instances": [1, 2.5]})").body,
            "{\n    \"predictions\": [3.0, 4.5\n    ]\n}");
  EXPECT_EQ(post("/v1/models/m/versions/1:predict", R"({"inputs": [1]})").body,
            "{\n    \"outputs\": [2.0]\n}");
  EXPECT_THAT(post("/v1/models/m/labels/stable:predict", R"({"instances": [1]})").body,
              HasSubstr("[2.0"));
  EXPECT_THAT(post("/v1/models/%6d:predict?x=1", R"({"instances": [1]})").body, HasSubstr("[3.0"));
  const HttpResponse two =
      post("/v1/models/m:predict",
           R"({"signature_name": "two", "instances": [{"x": 1, "text": {"b64": "/w=="}}]})");
  EXPECT_EQ(json::parse(two.body),
            json::parse(R"({"predictions": [{"text_bytes": {"b64": "/w=="}, "y": 3.0}]})"));
  EXPECT_EQ(two.content_type, "application/json");
}

TEST_F(RestApiTest, ClassifiesAndRegresses) {
  const char* const body = R"({"signature_name": "classify", "examples": [{"a": 1.5}]})";
  EXPECT_EQ(json::parse(post("/v1/models/m:classify", body).body),
            json::parse(R"({"results": [[["no", 0.25], ["yes", 0.75]]]})"));
  const HttpResponse regressed =
      post("/v1/models/m:regress", R"({"signature_name": "regress", "examples": [{}]})");
  EXPECT_EQ(json::parse(regressed.body), json::parse(R"({"results": [4.0]})"));
}

TEST_F(RestApiTest, AnswersErrorsInTheWordsOfTensorFlowServing) {
  const std::string one = R"({"instances": [1]})";
  EXPECT_EQ(error_of(post("/v1/models/n:predict", one)),
            "404 Servable not found for request: Latest(n)");
  EXPECT_EQ(error_of(post("/v1/models/m/versions/9:predict", one)),
            "404 Servable not found for request: Specific(m, 9)");
  EXPECT_EQ(error_of(post("/v1/models/m/labels/new:predict", one)),
            "400 Unrecognized servable version label: new");
  EXPECT_EQ(error_of(post("/v1/models/m:predict", "")),
            "400 JSON Parse error: The document is empty");
  EXPECT_EQ(error_of(post("/v1/models/m:predict", R"({"instances":[1],"signature_name":"s"})")),
            "400 Serving signature name: \"s\" not found in signature def");
  EXPECT_EQ(error_of(post("/v1/models/m:classify", R"({"examples":[{}],"signature_name":"s"})")),
            "400 No signature was found with the name: s");
  for (const char* target : {"/v1/models/m:PREDICT", "/v1/models/m/versions/x:predict",
                             "/v1/models/m/versions/1/labels/stable:predict", "/v1/models/m",
                             "/v1/models/m:explode", "/v1/other", "/v1/models/:predict"}) {
    EXPECT_EQ(error_of(post(target, one)), fmt::format("400 Malformed request: POST {}", target));
  }
  EXPECT_EQ(error_of(ask("PUT", "/v1/models/m")), "400 Malformed request: PUT /v1/models/m");
  EXPECT_EQ(error_of(post("/v1/models/m/versions/99999999999999999999:predict", one)),
            "400 Failed to convert version: 99999999999999999999 to numeric.");
  EXPECT_EQ(error_of(ask("GET", "/v1/models/n")), "404 Could not find any versions of model n");
  EXPECT_EQ(error_of(ask("GET", "/v1/models/m/versions/9")),
            "404 Could not find version 9 of model m");
  EXPECT_EQ(ask("GET", "/v1").status, 404);
  EXPECT_EQ(post("/v1/models/%zz:predict", one).status, 400);
}

TEST_F(RestApiTest, ShowsStatusAndMetadata) {
  const json all = json::parse(ask("GET", "/v1/models/m").body);
  EXPECT_EQ(all["model_version_status"][0], json::parse(R"({"version": "2", "state": "AVAILABLE",
                            "status": {"error_code": "OK", "error_message": ""}})"));
  EXPECT_EQ(all["model_version_status"].size(), 2U);
  const json labelled = json::parse(ask("GET", "/v1/models/m/labels/stable").body);
  EXPECT_EQ(labelled["model_version_status"][0]["version"], "1");
  EXPECT_EQ(labelled["model_version_status"].size(), 1U);
  const json metadata = json::parse(ask("GET", "/v1/models/m/metadata").body);
  EXPECT_EQ(metadata["model_spec"],
            json::parse(R"({"name": "m", "signature_name": "", "version": "2"})"));
  EXPECT_EQ(
      metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]["x"],
      json::parse(R"({"dtype": "DT_FLOAT", "name": "x:0", "tensor_shape":
                            {"dim": [{"size": "-1", "name": ""}], "unknown_rank": false}})"));
  EXPECT_EQ(json::parse(ask("GET", "/v1/models").body), json::parse(R"({"models": ["m"]})"));
}

/// Whose signatures have defaults, and odd methods.
class OddServable : public FakeServable {
 public:
  OddServable() : FakeServable(1), signatures_(FakeServable::signatures()) {
    signatures_["two"].defaults.emplace("x", graph::TensorValue::vector<float>({0.5F}));
    signatures_["odd"] = signatures_["serving_default"];
    signatures_["odd"].method_name = "train";
  }
  const Signatures& signatures() const override { return signatures_; }

 private:
  Signatures signatures_;
};

class RestOfOddModel : public RestApiTest {
 protected:
  FakeService odd_{1, [](const Path&) { return std::make_shared<OddServable>(); }};
  RestApi api() { return {odd_.service(), options_}; }
  HttpResponse call(const char* method, const char* body) {
    return api().handle({.method = "POST",
                         .target = fmt::format("/v1/models/m:{}", method),
                         .body = body,
                         .is_from_this_host = true});
  }
};

// TensorFlow Serving prints every field of a SignatureDef, also an empty one, and "defaults" is one
// in newer builds: answers of such servers have "defaults": {} after "method_name". Checks that
// were written for older builds expect none.
TEST_F(RestOfOddModel, ShowsDefaultsOfInputsAndThatThereAreNone) {
  const HttpResponse answer = api().handle({.method = "GET", .target = "/v1/models/m/metadata"});
  const json signatures = json::parse(answer.body)["metadata"]["signature_def"]["signature_def"];
  EXPECT_EQ(signatures["serving_default"]["defaults"], json::object());
  const json& value = signatures["two"]["defaults"]["x"];
  EXPECT_EQ(value["dtype"], "DT_FLOAT");
  EXPECT_EQ(value["tensor_shape"]["dim"][0]["size"], "1");
  EXPECT_EQ(value["float_val"], json::parse("[0.5]"));
}

TEST_F(RestOfOddModel, FillsUpTheRowsOfAnInputThatARequestLeavesOut) {
  const HttpResponse columns =
      call("predict", R"({"signature_name": "two", "inputs": {"text": ["a", "b"]}})");
  EXPECT_EQ(json::parse(columns.body)["outputs"]["y"], json::parse("[1.5, 1.5]")) << columns.body;
  const HttpResponse inferred =
      api().handle({.method = "POST",
                    .target = "/v2/models/m/infer",
                    .body = R"({"parameters": {"signature_name": "two"}, "inputs": [{"name": "text",
                   "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}],
                   "outputs": [{"name": "y"}]})",
                    .is_from_this_host = true});
  ASSERT_EQ(inferred.status, 200) << inferred.body;
  EXPECT_EQ(json::parse(inferred.body)["outputs"][0]["data"], json::parse("[1.5, 1.5]"));
}

TEST_F(RestOfOddModel, ChecksMethodNamesWhereItIsAskedTo) {
  const char* const rows = R"({"signature_name": "odd", "instances": [1]})";
  const char* const regressed = R"({"signature_name": "regress", "examples": [{"a": 1}]})";
  const char* const classified = R"({"signature_name": "classify", "examples": [{"a": 1}]})";
  EXPECT_EQ(call("predict", rows).status, 200);
  options_.check_method_names = true;
  EXPECT_EQ(error_of(call("predict", rows)),
            "500 Expected prediction signature method_name to be one of "
            "{tensorflow/serving/predict, tensorflow/serving/classify, "
            "tensorflow/serving/regress}. Was: train");
  EXPECT_EQ(call("predict", R"({"instances": [1]})").status, 200);
  EXPECT_EQ(call("classify", classified).status, 200);
  EXPECT_EQ(call("regress", regressed).status, 200);
  EXPECT_EQ(error_of(call("classify", regressed)),
            "400 Expected classification signature method_name to be tensorflow/serving/classify. "
            "Was: tensorflow/serving/regress");
  EXPECT_EQ(error_of(call("regress", classified)),
            "400 Expected regression signature method_name to be tensorflow/serving/regress. Was: "
            "tensorflow/serving/classify");
}

TEST_F(RestApiTest, TakesGzipWithinLimitsAndGivesItWhenAsked) {
  const std::string body = R"({"instances": [1]})";
  const Headers gzip{{"content-encoding", "gzip"}};
  EXPECT_THAT(post("/v1/models/m:predict", gzipped(body), gzip).body, HasSubstr("[3.0"));
  EXPECT_EQ(post("/v1/models/m:predict", gzipped(body).substr(0, 20), gzip).status, 400);
  options_.inflate.most_bytes = 1 << 20;
  const std::string bomb = gzipped(std::string(std::size_t{8} << 20, ' '));
  const HttpResponse too_large = post("/v1/models/m:predict", bomb, gzip);
  EXPECT_THAT(error_of(too_large), HasSubstr("413 the compressed body becomes larger than"));
  EXPECT_THAT(too_large.headers, ::testing::IsEmpty());  // Trying again would not help.
  EXPECT_EQ(post("/v2/models/m/infer", bomb, gzip).status, 413);
  options_.body_budget = std::make_shared<ByteBudget>(1000);
  EXPECT_EQ(post("/v1/models/m:predict", gzipped(std::string(5000, ' ')), gzip).status, 429);
  options_.body_budget = nullptr;
  EXPECT_EQ(post("/v1/models/m:predict", body, {{"Content-Encoding", "br"}}).status, 501);
  const HttpResponse large = ask("GET", "/v1/models/m/metadata", "", {{"Accept-Encoding", "gzip"}});
  EXPECT_THAT(inflated(large.body, {}), HasSubstr("signature_def"));
  EXPECT_THAT(large.headers, ::testing::Contains(::testing::Pair("Content-Encoding", "gzip")));
  EXPECT_THAT(ask("GET", "/v1/models/m/metadata", "", {{"Accept-Encoding", "gzip;q=0"}}).body,
              StartsWith("{"));
}

TEST_F(RestApiTest, AnswersPreflightAndCors) {
  EXPECT_EQ(ask("OPTIONS", "/v1/models/m:predict").status, 400);
  const HttpResponse plain = ask("OPTIONS", "/v1/x", "", {{"Origin", "https://a.example"}});
  EXPECT_EQ(plain.status, 200);
  EXPECT_TRUE(plain.headers.empty());
  EXPECT_EQ(ask("OPTIONS", "/v2/models/m/infer", "", {{"Origin", "http://a.example"}}).status, 200);
  options_.cors = true;
  EXPECT_THAT(ask("GET", "/v1/models/m").headers,
              ::testing::Contains(::testing::Pair("Access-Control-Allow-Origin", "*")));
}

TEST_F(RestApiTest, SpeaksCloudMlEngine) {
  const std::string body = R"({"instances": [1, {"x": 2}], "signature_name": "serving_default"})";
  const auto predictions = json::parse(R"({"predictions": [3.0, 4.0]})");
  EXPECT_EQ(json::parse(post("/v1/projects/p/models/m:predict", body).body), predictions);
  EXPECT_EQ(json::parse(post("/v1/projects/p/models/m/versions/v2:predict", body).body),
            predictions);
  EXPECT_EQ(json::parse(post("/v1/projects/p/models/m/versions/stable:predict", body).body),
            json::parse(R"({"predictions": [2.0, 3.0]})"));
  const HttpResponse wrong = post("/v1/projects/p/models/m:predict",
                                  R"({"instances": ["a"], "signature_name": "serving_default"})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(error_of(wrong), HasSubstr("400 Invalid inputs: input x"));
  EXPECT_THAT(error_of(wrong), ::testing::EndsWith("(Error code: 1)"));
  const HttpResponse none = post("/v1/projects/p/models/n:predict", body);
  EXPECT_EQ(json::parse(none.body)["error"]["status"], "NOT_FOUND");
  EXPECT_EQ(none.status, 404);
}

TEST(InferenceProtocol, TellsAnyRankAsOneOpenSize) {
  const auto shape = [](graph::Shape of) { return oip::shape_of({.name = "x:0", .shape = of}); };
  EXPECT_EQ(shape(graph::Shape::any()), (std::vector<std::int64_t>{-1}));
  EXPECT_EQ(shape({}), std::vector<std::int64_t>());
  EXPECT_EQ(shape({-1, 3}), (std::vector<std::int64_t>{-1, 3}));
}

TEST_F(RestApiTest, InfersByTheOpenInferenceProtocol) {
  const HttpResponse answer = post(
      "/v2/models/m/versions/1/infer",
      R"({"id": "7", "inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}]})");
  EXPECT_EQ(answer.body, R"({"id":"7","model_name":"m","model_version":"1","outputs":[{"name":"y",)"
                         R"("datatype":"FP32","shape":[2],"data":[2.0, 3.0]}]})");
  const json metadata = json::parse(ask("GET", "/v2/models/m").body);
  EXPECT_EQ(metadata["inputs"],
            json::parse(R"([{"name": "x", "datatype": "FP32", "shape": [-1]}])"));
  EXPECT_EQ(metadata["versions"], json::parse(R"(["2", "1"])"));
  EXPECT_EQ(ask("GET", "/v2/models/m/ready").status, 200);
  EXPECT_EQ(ask("GET", "/v2/models/n/ready").status, 503);
  EXPECT_EQ(ask("GET", "/v2/health/ready").status, 200);
  EXPECT_THAT(ask("GET", "/v2").body, HasSubstr("binary_tensor_data"));
  EXPECT_EQ(ask("GET", "/v2/models/m/infer").status, 405);
  EXPECT_EQ(ask("GET", "/v2/other").status, 404);
  const json stats = json::parse(ask("GET", "/v2/models/m/stats").body);
  EXPECT_EQ(stats["model_stats"][0]["inference_count"], 2);
}

// Adds 1, keeps the order of its rows, and waits in the first call until it is let go.
class WaitingServable : public FakeServable {
 public:
  WaitingServable() : FakeServable(1) {}

  Tensors run(std::string_view signature, const Tensors& inputs) const override {
    const float row = inputs.at("x").values<float>().front();
    rows_.push_back(row);  // One slot: one call at a time.
    if (row == 0) {
      entered_.release();
      go_.acquire();
    }
    return FakeServable::run(signature, inputs);
  }

  mutable std::vector<float> rows_;
  mutable Semaphore entered_{0};
  mutable Semaphore go_{0};
};

TEST_F(RestApiTest, InfersByPriority) {
  auto servable = std::make_shared<WaitingServable>();
  ModelStore store({.load = [&](const Path&) { return servable; },
                    .batching = {.max_batch_size = 1},
                    .slots = 1});
  store.configure({{.name = "m", .base_path = fake_.folder() / "m"}});
  store.wait_until_settled(Deadline::never());
  Service service(store, Access());
  RestApi api(service, options_);
  const auto infer = [&](int row, const std::string& parameters) {
    const HttpResponse answer = api.handle(
        {.method = "POST",
         .target = "/v2/models/m/infer",
         .body = fmt::format(R"({{"parameters": {{{}}}, "inputs": [{{"name": "x", "shape": [1], )"
                             R"("datatype": "FP32", "data": [{}]}}]}})",
                             parameters, row)});
    EXPECT_EQ(answer.status, 200) << answer.body;
  };
  const auto version = store.find("m", {});
  {
    std::jthread first([&] { infer(0, ""); });
    servable->entered_.acquire();
    std::jthread usual([&] { infer(2, ""); });
    EXPECT_TRUE(testing::eventually([&] { return version->waiting() == 1; }));
    std::jthread urgent([&] { infer(1, R"("priority": 1)"); });
    EXPECT_TRUE(testing::eventually([&] { return version->waiting() == 2; }));
    servable->go_.release();
  }
  EXPECT_THAT(servable->rows_, ElementsAre(0, 1, 2));
}

TEST_F(RestApiTest, InfersWithBinaryTensors) {
  const std::string request =
      R"({"parameters": {"binary_data_output": true}, "inputs": [{"name": "x", "shape": [2],)"
      R"("datatype": "FP32", "parameters": {"binary_data_size": 8}}]})";
  const float values[] = {1, 2};
  std::string body = request;
  body.append(reinterpret_cast<const char*>(values), sizeof values);
  const Headers headers{{"Inference-Header-Content-Length", std::to_string(request.size())}};
  const HttpResponse answer = post("/v2/models/m/infer", body, headers);
  ASSERT_EQ(answer.status, 200) << answer.body;
  float got[2];
  ASSERT_GT(answer.body.size(), sizeof got);
  std::memcpy(got, answer.body.data() + answer.body.size() - sizeof got, sizeof got);
  EXPECT_EQ(got[0], 3);
  EXPECT_EQ(got[1], 4);
  EXPECT_EQ(answer.content_type, "application/octet-stream");
  EXPECT_EQ(std::stoul(answer.headers.front().second), answer.body.size() - sizeof got);
  EXPECT_EQ(post("/v2/models/m/infer", body + "x", headers).status, 400);
  EXPECT_EQ(post("/v2/models/m/infer", body.substr(0, body.size() - 1), headers).status, 400);
  EXPECT_EQ(post("/v2/models/m/infer", body, {{"Inference-Header-Content-Length", "-1"}}).status,
            400);
}

TEST_F(RestApiTest, RefusesWrongInferencesInTritonsWords) {
  const auto refusal = [&](const std::string& inputs) {
    return error_of(post("/v2/models/m/infer", "{\"inputs\": [" + inputs + "]}"));
  };
  EXPECT_EQ(refusal(R"({"name": "x", "shape": [1], "datatype": "INT32", "data": [1]})"),
            "400 inference input 'x' data-type is 'INT32', but model 'm' expects 'FP32'");
  EXPECT_EQ(refusal(R"({"name": "z", "shape": [1], "datatype": "FP32", "data": [1]})"),
            "400 unexpected inference input 'z' for model 'm'");
  EXPECT_THAT(refusal(R"({"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]})"),
              HasSubstr("unexpected shape for input 'x' for model 'm'. Expected [-1], got [1,1]."));
  EXPECT_THAT(refusal(""), HasSubstr("expected 1 inputs but got 0 inputs for model 'm'."));
  EXPECT_THAT(refusal(R"({"name": "x", "shape": [2], "datatype": "FP32", "data": [1]})"),
              HasSubstr("Shape does not match true shape of 'data' field"));
  EXPECT_THAT(refusal(R"({"name": "x", "shape": [9223372036854775807, 9], "datatype": "FP32",
                          "data": [1]})"),
              HasSubstr("cannot have the shape"));
  EXPECT_EQ(error_of(post("/v2/models/n/infer", "{}")),
            "404 Request for unknown model: 'n' is not found");
}

TEST_F(RestApiTest, TheIndexTellsLabelsAndTheDefaultVersion) {
  const std::string index = post("/v2/repository/index", "").body;
  EXPECT_THAT(index, HasSubstr(R"("labels":["stable"])"));
  EXPECT_THAT(index, HasSubstr(R"("default":true)"));
}

TEST_F(RestApiTest, LoadsAndUnloadsForThisHostAlone) {
  EXPECT_EQ(post("/v2/repository/models/m/unload", "").status, 200);
  EXPECT_EQ(ask("GET", "/v2/models/m/ready").status, 503);
  EXPECT_THAT(post("/v2/repository/index", "").body, HasSubstr("\"reason\":\"unloaded\""));
  EXPECT_EQ(post("/v2/repository/models/m/load", "").status, 200);
  EXPECT_EQ(ask("GET", "/v2/models/m/ready").status, 200);
  EXPECT_EQ(post("/v2/repository/models/n/load", "").status, 404);
  from_this_host_ = false;
  EXPECT_EQ(post("/v2/repository/models/m/unload", "").status, 403);
  EXPECT_EQ(post("/v2/repository/models/m%2funload/unload", "").status, 403);
  EXPECT_EQ(ask("GET", "/v2/models/m/ready").status, 200);
}

TEST_F(RestApiTest, LoadsNoConfigurationAndNoFilesOfItsClients) {
  const auto outcome = [&](const std::string& body) {
    const HttpResponse answer = post("/v2/repository/models/m/load", body);
    return answer.status == 200 ? "200" : error_of(answer);
  };
  EXPECT_THAT(outcome(R"({"parameters": {"config": "\"parameters\": {\"config\": {{}}}"}})"),
              StartsWith("400 failed to load 'm': the parameter config is no JSON"));
  EXPECT_THAT(outcome(R"({"parameters": {"config": "[16]"}})"),
              StartsWith("400 failed to load 'm': the parameter config must be a JSON object"));
  EXPECT_THAT(outcome(R"({"parameters": {"config": "{\"max_batch_size\": 16}"}})"),
              StartsWith("501 failed to load 'm': this server has no model configuration"));
  EXPECT_THAT(outcome(R"({"parameters": {"file:1/model.onnx": "AAAA"}})"),
              StartsWith("501 failed to load 'm': files of a model cannot be sent"));
  EXPECT_THAT(outcome(R"({"parameters": 1})"), StartsWith("400 failed to load 'm'"));
  EXPECT_THAT(outcome("nonsense"), StartsWith("400 failed to parse the request JSON buffer"));
  EXPECT_EQ(outcome(R"({"parameters": {"config": "{}", "other": true}})"), "200");
  EXPECT_EQ(outcome("{}"), "200");
  EXPECT_EQ(error_of(post("/v2/repository/models/n/load", "")),
            "404 failed to load 'n': no model of that name is configured");
}

TEST_F(RestApiTest, AsksForTokensEverywhereButHealth) {
  Service guarded(fake_.store(), Access::from_text("secret predict\nboss admin # all\n"));
  const auto status = [&](const std::string& method, const std::string& target,
                          const std::string& token) {
    RestApi api(guarded, {});
    Headers headers;
    if (!token.empty()) headers.emplace_back("authorization", token);
    return api
        .handle({.method = method,
                 .target = target,
                 .headers = headers,
                 .body = R"({"instances": [1]})",
                 .is_from_this_host = true})
        .status;
  };
  for (const char* target : {"/v1/models/m:predict", "/v1/projects/p/models/m:predict",
                             "/V1/models/m:predict", "/v2/models/m/infer", "/v2/repository/index",
                             "/v2/repository/models/m/unload", "/v1/models/%6d:predict"}) {
    EXPECT_EQ(status("POST", target, ""), 401) << target;
    EXPECT_EQ(status("POST", target, "Bearer wrong"), 401) << target;
  }
  for (const char* target : {"/metrics", "/v1/models/m", "/v2/models/m", "/v2", "/v2/models/stats",
                             "/monitoring/prometheus/metrics"}) {
    EXPECT_EQ(status("GET", target, ""), 401) << target;
    EXPECT_EQ(status("GET", target, "Bearer secret"), 200) << target;
  }
  EXPECT_EQ(status("POST", "/v1/models/m:predict", "bearer secret"), 200);
  EXPECT_EQ(status("POST", "/v2/repository/models/m/unload", "Bearer secret"), 403);
  EXPECT_EQ(status("GET", "/readyz", ""), 200);
}

TEST_F(RestApiTest, TellsItsHealth) {
  EXPECT_EQ(ask("GET", "/healthz").body, "ok\n");
  EXPECT_EQ(ask("GET", "/readyz").status, 200);
  service_.begin_drain();
  EXPECT_EQ(ask("GET", "/readyz").status, 503);
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_THAT(post("/v1/models/m:predict", R"({"instances": [1]})").body, HasSubstr("[3.0"));
}

TEST_F(RestApiTest, CountsRequestsOnBothPages) {
  post("/v1/models/m:predict", R"({"instances": [1]})");
  post("/v1/models/m:predict", "x");
  post("/v1/models/no\"pe:predict", "x");
  const std::string page = ask("GET", "/metrics").body;
  EXPECT_THAT(page, HasSubstr("muster_requests_total{model=\"m\",version=\"2\",signature=\"serving_"
                              "default\",method=\"Predict\",entrypoint=\"REST\",code=\"OK\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("muster_ready 1\n"));
  const std::string theirs = ask("GET", "/monitoring/prometheus/metrics").body;
  EXPECT_THAT(theirs,
              HasSubstr(":tensorflow:serving:request_count{model_name=\"m\",status=\"OK\"} 1\n"));
  EXPECT_THAT(theirs, HasSubstr("{model_name=\"no\\\"pe\",status=\"NOT_FOUND\"} 1\n"));
  EXPECT_THAT(theirs, HasSubstr(":tensorflow:serving:request_latency_count{model_name=\"m\",API="
                                "\"predict\",entrypoint=\"REST\"} 1\n"));
}

TEST(HalfBits, AreTheNearestHalf) {
  EXPECT_EQ(oip::half_bits(1.0F), 0x3C00);
  EXPECT_EQ(oip::half_bits(-2.0F), 0xC000);
  EXPECT_EQ(oip::half_bits(65504.0F), 0x7BFF);
  EXPECT_EQ(oip::half_bits(65520.0F), 0x7C00);
  EXPECT_EQ(oip::half_bits(5.9604645e-8F), 0x0001);
  EXPECT_EQ(oip::half_bits(6.0975552e-5F), 0x03FF);
  EXPECT_EQ(oip::half_bits(1e-9F), 0x0000);
  EXPECT_EQ(oip::half_bits(std::nanf("")), 0x7E00);
}

}  // namespace
}  // namespace muster::serving
