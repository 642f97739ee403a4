// One rule decides which version answers, whatever the protocol.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "muster/inference.pb.h"
#include "muster/serving.pb.h"
#include "muster/serving/core/service_fake.h"
#include "muster/serving/core/version_rule.h"
#include "muster/serving/grpc/http2_client_fake.h"
#include "muster/serving/protocols/grpc_server.h"
#include "muster/serving/protocols/rest_api.h"

namespace muster::serving {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Versions 1 and 2 of the model "m", half of the requests each.
class VersionTraffic : public ::testing::Test {
 protected:
  VersionTraffic() {
    auto models = fake_.store().models();
    models.front().weights = {{"stable", 1}, {"2", 1}};
    fake_.service().configure(models);
    config_ = models.front();
  }

  std::string by_rest(const std::string& path, const std::string& body, const std::string& key) {
    HttpResponse answer = api_.handle({.method = "POST",
                                       .target = path,
                                       .headers = {{"X-Muster-Key", key}},
                                       .body = body,
                                       .is_from_this_host = true});
    EXPECT_EQ(answer.status, 200) << answer.body;
    for (const auto& [name, value] : answer.headers) {
      if (name == "X-Muster-Version") return value;
    }
    return "none";
  }

  std::string by_grpc(const std::string& method, const std::string& message,
                      const std::string& key) {
    client_.send(http2::begun_call(stream_, method, http2::header("x-muster-key", key)) +
                 http2::message(stream_, message));
    const http2::Answer& answer = client_.answer(stream_);
    stream_ += 2;
    return answer.message();
  }

  std::string by_predict(const std::string& key, bool is_known) {
    tensorflow::serving::PredictRequest request;
    request.mutable_model_spec()->set_name("m");
    auto& x = (*request.mutable_inputs())["x"];
    x.set_dtype(muster::proto::DT_FLOAT);
    x.mutable_tensor_shape()->add_dim()->set_size(1);
    x.add_float_val(1);
    // Only protobuf's messages pass over a field that is not known.
    const std::string bytes = request.SerializeAsString() + (is_known ? "" : "\xA0\x06\x01");
    tensorflow::serving::PredictResponse response;
    EXPECT_TRUE(response.ParseFromString(
        by_grpc("/tensorflow.serving.PredictionService/Predict", bytes, key)));
    return std::to_string(response.model_spec().version().value());
  }

  std::string by_infer(const std::string& key) {
    inference::ModelInferRequest request;
    request.set_model_name("m");
    auto* const x = request.add_inputs();
    x->set_name("x");
    x->set_datatype("FP32");
    x->add_shape(1);
    x->mutable_contents()->add_fp32_contents(1);
    inference::ModelInferResponse response;
    EXPECT_TRUE(response.ParseFromString(
        by_grpc("/inference.GRPCInferenceService/ModelInfer", request.SerializeAsString(), key)));
    return response.model_version();
  }

  FakeService fake_{};
  ModelConfig config_{};
  RestApi api_{fake_.service(), {}};
  GrpcServer server_{fake_.service(), {.address = "127.0.0.1"}};
  http2::Client client_{fmt::format("127.0.0.1:{}", server_.port())};
  std::size_t stream_ = 1;
};

TEST_F(VersionTraffic, AKeyGetsTheSameVersionByEveryProtocol) {
  const std::string rows = R"({"instances": [1]})";
  const std::string tensors =
      R"({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]})";
  int of_two = 0;
  for (int user = 0; user < 20; ++user) {
    const std::string key = fmt::format("user-{}", user);
    const auto number = decide_version(
                            config_, {.key = key}, [](std::int64_t) { return true; }, 0)
                            .value();
    of_two += number == 2 ? 1 : 0;
    const std::string version = std::to_string(number);
    EXPECT_EQ(by_rest("/v1/models/m:predict", rows, key), version);
    EXPECT_EQ(by_rest("/v1/projects/p/models/m:predict",
                      R"({"instances": [1], "signature_name": "serving_default"})", key),
              version);
    EXPECT_EQ(by_rest("/v2/models/m/infer", tensors, key), version);
    EXPECT_EQ(by_predict(key, /*is_known=*/true), version);
    EXPECT_EQ(by_predict(key, /*is_known=*/false), version);
    EXPECT_EQ(by_infer(key), version);
  }
  EXPECT_GT(of_two, 3);
  EXPECT_LT(of_two, 17);
}

TEST_F(VersionTraffic, AVersionThatIsNamedAnswersWhateverTheKeyIs) {
  const std::string rows = R"({"instances": [1], "signature_name": "serving_default"})";
  for (int user = 0; user < 10; ++user) {
    const std::string key = fmt::format("user-{}", user);
    EXPECT_EQ(by_rest("/v1/models/m/versions/2:predict", rows, key), "2");
    EXPECT_EQ(by_rest("/v1/models/m/labels/stable:predict", rows, key), "1");
    EXPECT_EQ(by_rest("/v1/projects/p/models/m/versions/stable:predict", rows, key), "1");
    EXPECT_EQ(by_rest("/v1/projects/p/models/m/versions/v2:predict", rows, key), "2");
  }
}

TEST_F(VersionTraffic, BothVersionsAnswerRequestsWithoutAKeyAndAreCounted) {
  int of_two = 0;
  for (int i = 0; i < 200; ++i) {
    of_two += by_rest("/v1/models/m:predict", R"({"instances": [1]})", "") == "2" ? 1 : 0;
  }
  // Beyond this in one of 10^9 runs.
  EXPECT_NEAR(of_two, 100, 44);
  EXPECT_EQ(fake_.service().statistics().counts("m", 2).success,
            static_cast<std::uint64_t>(of_two));
  EXPECT_THAT(fake_.service().metrics_page(),
              AllOf(HasSubstr("muster_model_version_share{model=\"m\",version=\"1\"} 0.5"),
                    HasSubstr("muster_model_version_share{model=\"m\",version=\"2\"} 0.5")));
}

TEST_F(VersionTraffic, TheIndexTellsShares) {
  const HttpResponse answer =
      api_.handle({.method = "POST", .target = "/v2/repository/index", .is_from_this_host = true});
  for (const auto& row : nlohmann::json::parse(answer.body)) {
    EXPECT_EQ(row["parameters"]["share"], 0.5) << row;
  }
}

}  // namespace
}  // namespace muster::serving
