#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "muster/base/semaphore.h"
#include "muster/data/records/record_writer.h"
#include "muster/serving/core/service_fake.h"
#include "muster/serving/protocols/protobuf_log_internal.h"
#include "muster/serving/protocols/tensorflow/tensor_proto_internal.h"
#include "muster/serving/protocols/tensorflow/tensorflow_requests_internal.h"
#include "muster/serving/protocols/tensorflow/warm_up.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;
using graph::TensorValue;
using muster::proto::TensorProto;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::size_t kRoom = 1 << 20;

TensorProto floats(const std::vector<float>& values) {
  TensorProto proto;
  write_tensor(TensorValue::vector<float>(values), false, proto);
  return proto;
}

TEST(TensorProtos, ThatCannotBeReadWriteNothingToStandardError) {
  quiet_protobuf();
  wire::PredictRequest request;
  request.mutable_model_spec()->set_name("name");
  std::string bytes = request.SerializeAsString();
  bytes[bytes.find("name")] = '\xFF';  // No UTF-8.
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(wire::PredictRequest().ParseFromString(bytes));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(TensorProtos, ComeBackAsTheyWere) {
  const std::vector<std::int64_t> ints{1, -2};
  for (const TensorValue& tensor :
       {TensorValue::vector<float>({1.5F, -2}), TensorValue::vector<double>({0.1}),
        TensorValue::vector<std::int64_t>(ints), TensorValue::vector<std::uint8_t>({255}),
        TensorValue::vector<std::int8_t>({-1}), TensorValue::vector<std::int16_t>({-300}),
        TensorValue::vector<std::uint32_t>({1U << 31}),
        TensorValue::of_strings({2, 1}, {"a", std::string("\0\xFF", 2)})}) {
    for (const bool raw : {false, true}) {
      TensorProto proto;
      write_tensor(tensor, raw, proto);
      EXPECT_EQ(tensor_of(proto, "x", kRoom), tensor);
    }
  }
}

TEST(TensorProtos, RepeatTheLastValueAndDropExtraOnes) {
  TensorProto proto = floats({1, 2});
  proto.mutable_tensor_shape()->mutable_dim(0)->set_size(4);
  EXPECT_THAT(tensor_of(proto, "x", kRoom).values<float>(), ElementsAre(1, 2, 2, 2));
  proto.mutable_tensor_shape()->mutable_dim(0)->set_size(1);
  EXPECT_THAT(tensor_of(proto, "x", kRoom).values<float>(), ElementsAre(1));
  proto.clear_float_val();
  EXPECT_THAT(tensor_of(proto, "x", kRoom).values<float>(), ElementsAre(0));
}

TEST(TensorProtos, ReadStringsInTensorFlowsOwnCoding) {
  TensorProto proto;
  proto.set_dtype(muster::proto::DT_STRING);
  proto.mutable_tensor_shape()->add_dim()->set_size(2);
  proto.set_tensor_content(std::string("\x01\x02") + "abc");
  EXPECT_THAT(tensor_of(proto, "x", kRoom).strings, ElementsAre("a", "bc"));
  proto.set_tensor_content(std::string("\x01\x7F") + "abc");
  EXPECT_THROW(tensor_of(proto, "x", kRoom), InvalidArgument);
}

TEST(TensorProtos, AreRefusedWhenTheyClaimTooMuch) {
  const auto refusal = [](const TensorProto& proto) {
    return message_of([&] { tensor_of(proto, "x", kRoom); });
  };
  TensorProto huge = floats({1});
  huge.mutable_tensor_shape()->mutable_dim(0)->set_size(std::int64_t{1} << 40);
  EXPECT_THAT(refusal(huge), HasSubstr("tensor parsing error: x"));
  TensorProto many;
  many.set_dtype(muster::proto::DT_STRING);
  many.mutable_tensor_shape()->add_dim()->set_size(std::int64_t{1} << 40);
  EXPECT_THAT(refusal(many), HasSubstr("tensor parsing error: x"));
  TensorProto negative = floats({1});
  negative.mutable_tensor_shape()->mutable_dim(0)->set_size(-1);
  EXPECT_THAT(refusal(negative), HasSubstr("tensor parsing error: x"));
  TensorProto content = floats({});
  content.mutable_tensor_shape()->mutable_dim(0)->set_size(2);
  content.set_tensor_content("abc");
  EXPECT_THAT(refusal(content), HasSubstr("tensor parsing error: x"));
  EXPECT_THAT(refusal(TensorProto()), HasSubstr("tensor parsing error: x"));
}

class TensorFlowCalls : public ::testing::Test {
 protected:
  TensorFlowCalls() {
    request_.mutable_model_spec()->set_name("m");
    (*request_.mutable_inputs())["x"] = floats({1, 2});
  }

  wire::PredictResponse ask() {
    wire::PredictResponse response;
    response.ParseFromString(predict(service_, request_.SerializeAsString(), {}, {}));
    return response;
  }
  std::string refusal() {
    return message_of([&] { ask(); });
  }

  FakeService fake_{1};
  const testing::TempDir& folder_ = fake_.folder();
  ModelStore& store_ = fake_.store();
  Service& service_ = fake_.service();
  wire::PredictRequest request_;
};

TEST_F(TensorFlowCalls, PredictAnswersWithTheVersionItUsed) {
  const wire::PredictResponse response = ask();
  EXPECT_THAT(response.outputs().at("y").float_val(), ElementsAre(2, 3));
  EXPECT_EQ(response.model_spec().version().value(), 1);
  EXPECT_EQ(response.model_spec().signature_name(), "serving_default");
  EXPECT_THAT(service_.tensorflow_metrics_page(), HasSubstr("API=\"Predict\",entrypoint=\"GRPC\""));
}

TEST_F(TensorFlowCalls, PredictRefusesInTheWordsOfTensorFlowServing) {
  request_.mutable_model_spec()->set_signature_name("s");
  EXPECT_EQ(refusal(), "Serving signature key \"s\" not found.");
  request_.mutable_model_spec()->set_signature_name("two");
  EXPECT_EQ(refusal(),
            "input size does not match signature: 1!=2 len({x}) != len({text,x}). Sent extra: {}. "
            "Missing but required: {text}.");
  request_.mutable_model_spec()->clear_signature_name();
  request_.add_output_filter("z");
  EXPECT_EQ(refusal(),
            "output tensor alias not found in signature: z Outputs expected to be in the set {y}.");
  request_.clear_output_filter();
  request_.add_output_filter("y");
  request_.add_output_filter("y");
  EXPECT_EQ(refusal(), "duplicate output tensor alias: y");
  request_.clear_output_filter();
  request_.clear_inputs();
  (*request_.mutable_inputs())["z"] = floats({1});
  EXPECT_THAT(refusal(),
              HasSubstr("Signature input alias: x(feed name: x:0) not found in request"));
  request_.mutable_model_spec()->set_name("n");
  EXPECT_EQ(refusal(), "Servable not found for request: Latest(n)");
  request_.mutable_model_spec()->set_name("");
  EXPECT_EQ(refusal(), "ModelSpec has no name specified.");
  request_.clear_model_spec();
  EXPECT_EQ(refusal(), "Missing ModelSpec");
}

TEST(PredictInputs, AreTheDefaultsOfTrainingForEveryRowWhereTheyAreMissing) {
  const graph::TensorInfo numbers{.name = "n:0", .dtype = graph::DataType::kFloat, .shape = {-1}};
  graph::SignatureDef signature;
  signature.inputs = {{"age", numbers}, {"x", numbers}};
  signature.defaults.emplace("age", TensorValue::vector<float>({38}));
  wire::PredictRequest request;
  (*request.mutable_inputs())["x"] = floats({1, 2, 3});
  const Tensors inputs = predict_inputs(request, signature, kRoom);
  EXPECT_THAT(inputs.at("age").values<float>(), ElementsAre(38, 38, 38));
  EXPECT_THAT(inputs.at("x").values<float>(), ElementsAre(1, 2, 3));
}

template <typename Response, typename Start, typename Request>
Response answer_of(const Start& start, Service& service, const Request& request) {
  Response response;
  response.ParseFromString(serving::answer_of(start, service, request.SerializeAsString()));
  return response;
}

wire::MultiInferenceResponse multi_inference(Service& service,
                                             const wire::MultiInferenceRequest& request) {
  return answer_of<wire::MultiInferenceResponse>(start_multi_inference, service, request);
}

void add_task(const char* signature, std::string_view method,
              wire::MultiInferenceRequest& request) {
  auto* const task = request.add_tasks();
  task->mutable_model_spec()->set_name("m");
  task->mutable_model_spec()->set_signature_name(signature);
  task->set_method_name(std::string(method));
}

wire::MultiInferenceRequest two_tasks() {
  wire::MultiInferenceRequest request;
  request.mutable_input()->mutable_example_list()->add_examples();
  add_task("classify", graph::kClassifyMethod, request);
  add_task("regress", graph::kRegressMethod, request);
  return request;
}

TEST_F(TensorFlowCalls, ClassifyAndRegressAnswerForEveryExample) {
  wire::ClassificationRequest request;
  request.mutable_model_spec()->set_name("m");
  request.mutable_model_spec()->set_signature_name("classify");
  for (int i = 0; i < 2; ++i) request.mutable_input()->mutable_example_list()->add_examples();
  const auto classified =
      answer_of<wire::ClassificationResponse>(start_classify, service_, request);
  ASSERT_EQ(classified.result().classifications_size(), 2);
  EXPECT_EQ(classified.result().classifications(1).classes(1).label(), "yes");
  EXPECT_EQ(classified.model_spec().version().value(), 1);
  EXPECT_EQ(classified.model_spec().signature_name(), "classify");
  request.mutable_model_spec()->set_signature_name("regress");
  const auto regressed = answer_of<wire::RegressionResponse>(start_regress, service_, request);
  ASSERT_EQ(regressed.result().regressions_size(), 2);
  EXPECT_EQ(regressed.result().regressions(1).value(), 1);
  request.mutable_model_spec()->set_signature_name("none");
  EXPECT_EQ(message_of([&] {
              answer_of<wire::ClassificationResponse>(start_classify, service_, request);
            }),
            "No signature was found with the name: none");
  request.clear_input();
  request.mutable_model_spec()->set_signature_name("regress");
  EXPECT_EQ(
      message_of([&] { answer_of<wire::RegressionResponse>(start_regress, service_, request); }),
      "Input is empty.");
  EXPECT_THAT(service_.tensorflow_metrics_page(),
              AllOf(HasSubstr("API=\"Classify\",entrypoint=\"GRPC\""),
                    HasSubstr("API=\"Regress\",entrypoint=\"GRPC\"")));
}

TEST_F(TensorFlowCalls, MultiInferenceAnswersEveryTask) {
  const wire::MultiInferenceResponse response = multi_inference(service_, two_tasks());
  ASSERT_EQ(response.results_size(), 2);
  EXPECT_EQ(response.results(0).classification_result().classifications(0).classes(1).label(),
            "yes");
  EXPECT_EQ(response.results(0).model_spec().signature_name(), "classify");
  EXPECT_EQ(response.results(1).regression_result().regressions(0).value(), 1);
  EXPECT_EQ(response.results(1).model_spec().signature_name(), "regress");
  EXPECT_EQ(service_.statistics().counts("m", 1).success, 2U);
}

TEST_F(TensorFlowCalls, CheckMethodNamesWhereTheyAreAskedTo) {
  const TensorFlowCallOptions checking{.check_method_names = true};
  wire::MultiInferenceRequest request;
  request.mutable_input()->mutable_example_list()->add_examples();
  add_task("classify", graph::kClassifyMethod, request);
  const auto outcome = [&](const TensorFlowCallOptions& options) {
    return message_of([&] {
      serving::answer_of(start_multi_inference, service_, request.SerializeAsString(), options);
    });
  };
  EXPECT_EQ(outcome(checking), "nothing was thrown");
  request.mutable_tasks(0)->mutable_model_spec()->set_signature_name("regress");
  const char* const expected =
      "Expected classification signature method_name to be tensorflow/serving/classify. Was: "
      "tensorflow/serving/regress";
  EXPECT_EQ(outcome(checking), expected);
  EXPECT_NE(outcome({}), expected);
  wire::ClassificationRequest classification;
  *classification.mutable_model_spec() = request.tasks(0).model_spec();
  *classification.mutable_input() = request.input();
  EXPECT_EQ(message_of([&] {
              serving::answer_of(start_classify, service_, classification.SerializeAsString(),
                                 checking);
            }),
            expected);
  EXPECT_EQ(message_of([&] { predict(service_, request_.SerializeAsString(), {}, checking); }),
            "nothing was thrown");
}

TEST_F(TensorFlowCalls, MultiInferenceSaysWhatIsWrongWithATask) {
  const auto refusal = [&](const wire::MultiInferenceRequest& request) {
    return message_of([&] { multi_inference(service_, request); });
  };
  EXPECT_EQ(refusal({}), "Inference request with no tasks");
  auto request = two_tasks();
  add_task("regress", graph::kRegressMethod, request);
  EXPECT_EQ(refusal(request), "Duplicate evaluation of signature: regress");
  request = two_tasks();
  request.mutable_tasks(1)->set_method_name("x");
  EXPECT_EQ(refusal(request), "Unsupported signature method_name: x");
  request = two_tasks();
  request.mutable_tasks(1)->mutable_model_spec()->set_name("n");
  EXPECT_THAT(refusal(request), HasSubstr("must access the same model name"));
  EXPECT_EQ(service_.statistics().counts("m", 1).success, 0U);
  request = two_tasks();
  request.mutable_tasks(1)->mutable_model_spec()->set_signature_name("none");
  EXPECT_EQ(refusal(request), "Requested signature not found in model graph: none");
  EXPECT_EQ(service_.in_flight(), 0);
}

/// A model whose classifications wait for something.
class HeldServable final : public FakeServable {
 public:
  HeldServable(float added, std::function<void()> hold)
      : FakeServable(added), hold_(std::move(hold)) {}
  Tensors run(std::string_view signature, const Tensors& inputs) const override {
    if (signature == "classify") hold_();
    return FakeServable::run(signature, inputs);
  }

 private:
  std::function<void()> hold_;
};

class HeldTensorFlowCalls : public ::testing::Test {
 public:
  ~HeldTensorFlowCalls() override { go_.release(); }

 protected:
  Semaphore held_{0};
  Semaphore go_{0};
  FakeService fake_{1, [this](const Path& dir) {
                      return std::make_shared<HeldServable>(
                          std::stof(read_file(dir / "saved_model.pb")), [this] {
                            held_.release();
                            go_.acquire();
                          });
                    }};
};

TEST_F(HeldTensorFlowCalls, ReturnBeforeTheModelAnswers) {
  std::promise<std::string> bytes;
  start_multi_inference(
      fake_.service(), two_tasks().SerializeAsString(), {}, {},
      [&](std::string answer, const std::exception_ptr&) { bytes.set_value(std::move(answer)); });
  held_.acquire();
  EXPECT_EQ(fake_.service().in_flight(), 1);
  go_.release();
  wire::MultiInferenceResponse response;
  ASSERT_TRUE(response.ParseFromString(bytes.get_future().get()));
  EXPECT_EQ(response.results_size(), 2);
}

TEST_F(HeldTensorFlowCalls, MultiInferenceHasOneVersionThoughAnotherIsLoaded) {
  fake_.store().configure({{.name = "m", .base_path = fake_.folder() / "m"}});
  auto answer =
      std::async(std::launch::async, [&] { return multi_inference(fake_.service(), two_tasks()); });
  held_.acquire();
  write_fake(fake_.folder() / "m/2", "2");
  const std::jthread load([&] { fake_.store().poll(); });
  EXPECT_TRUE(testing::eventually([&] { return fake_.store().find("m")->number() == 2; }));
  EXPECT_TRUE(testing::eventually([&] {
    return message_of([&] { fake_.store().find("m", {.number = 1}); }) != "nothing was thrown";
  }));
  go_.release();
  const wire::MultiInferenceResponse response = answer.get();
  for (const auto& result : response.results()) {
    EXPECT_EQ(result.model_spec().version().value(), 1);
  }
  EXPECT_EQ(response.results(1).regression_result().regressions(0).value(), 1);
}

TEST_F(TensorFlowCalls, ReloadReplacesTheListOrSaysWhatFails) {
  write_fake(folder_ / "n/5", "5");
  write_fake(folder_ / "bad/1", "broken");
  wire::ReloadConfigRequest request;
  const auto add = [&](const char* name) {
    auto* const config = request.mutable_config()->mutable_model_config_list()->add_config();
    config->set_name(name);
    config->set_base_path((folder_ / name).string());
    config->set_model_platform("tensorflow");
  };
  wire::ReloadConfigResponse response;
  add("n");
  reload_config(service_, request, {}, response);
  EXPECT_EQ(store_.find("n")->number(), 5);
  EXPECT_THROW(store_.find("m"), NotFound);
  add("bad");
  EXPECT_THAT(
      message_of([&] { reload_config(service_, request, {}, response); }),
      HasSubstr("1 model(s) did not become available: {{name: bad version: 1} due to error"));
  EXPECT_EQ(store_.find("n")->number(), 5);
  EXPECT_THAT(message_of([&] { reload_config(service_, {}, {}, response); }),
              HasSubstr("Only ModelConfigList is currently supported"));
}

TEST_F(TensorFlowCalls, MetadataAndStatusTellOfVersions) {
  wire::GetModelMetadataRequest asked;
  asked.mutable_model_spec()->set_name("m");
  wire::GetModelMetadataResponse metadata;
  EXPECT_THROW(model_metadata(service_, asked, metadata), InvalidArgument);
  asked.add_metadata_field("signature_def");
  model_metadata(service_, asked, metadata);
  wire::SignatureDefMap map;
  const auto& any = metadata.metadata().at("signature_def");
  EXPECT_EQ(any.type_url(), "type.googleapis.com/tensorflow.serving.SignatureDefMap");
  ASSERT_TRUE(any.UnpackTo(&map));
  EXPECT_EQ(map.signature_def().at("serving_default").inputs().at("x").name(), "x:0");
  wire::GetModelStatusRequest status_request;
  status_request.mutable_model_spec()->set_name("m");
  wire::GetModelStatusResponse status;
  model_status(service_, status_request, status);
  EXPECT_EQ(status.model_version_status(0).state(), wire::ModelVersionStatus::AVAILABLE);
}

TEST_F(TensorFlowCalls, WarmUpRunsWhatTheFileHolds) {
  const auto write = [&](const std::string& record) {
    std::filesystem::create_directories(folder_ / "m/1/assets.extra");
    RecordWriter writer(folder_ / "m/1/assets.extra/tf_serving_warmup_requests");
    writer.append(record);
    writer.close();
  };
  const ModelVersionPtr version = store_.find("m");
  warm_up(*version, folder_ / "m/1", 1);  // There is no file.
  wire::PredictionLog log;
  *log.mutable_predict_log()->mutable_request() = request_;
  write(log.SerializeAsString());
  warm_up(*version, folder_ / "m/1", 2);
  log.mutable_predict_log()->mutable_request()->clear_inputs();
  write(log.SerializeAsString());
  EXPECT_THAT(message_of([&] { warm_up(*version, folder_ / "m/1", 1); }),
              HasSubstr("tf_serving_warmup_requests, record 1: input size does not match"));
  write("\x01");
  EXPECT_THROW(warm_up(*version, folder_ / "m/1", 1), DataLoss);
}

}  // namespace
}  // namespace muster::serving
