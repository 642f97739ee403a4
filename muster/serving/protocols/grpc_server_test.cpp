#include "muster/serving/protocols/grpc_server.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "muster/inference.pb.h"
#include "muster/serving.pb.h"
#include "muster/serving/core/service_fake.h"
#include "muster/serving/grpc/http2_client_fake.h"

namespace muster::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kOk = "0";
constexpr const char* kUnauthenticated = "16";

/// A server of the model "m", and one connection to it.
class GrpcServerTest : public ::testing::Test {
 protected:
  explicit GrpcServerTest(Access access = {}) : service_(fake_.store(), std::move(access)) {
    service_.configure(fake_.store().models());
  }

  /// The answer to a call of one message.
  http2::Answer call(const std::string& method, const std::string& message,
                     const std::string& token = "") {
    const std::string header =
        token.empty() ? "" : http2::header("authorization", "Bearer " + token);
    client_.send(http2::begun_call(stream_, method, header) + http2::message(stream_, message));
    const http2::Answer& answer = client_.answer(stream_);
    stream_ += 2;
    return answer;
  }
  static std::string status_of(const http2::Answer& answer) {
    const auto found = answer.fields.find("grpc-status");
    return found == answer.fields.end() ? "" : found->second;
  }
  template <typename Response, typename Request>
  Response ask(const std::string& method, const Request& request) {
    const http2::Answer answer =
        call("/inference.GRPCInferenceService/" + method, request.SerializeAsString());
    Response response;
    EXPECT_EQ(status_of(answer), kOk) << answer.fields.at("grpc-message");
    EXPECT_TRUE(response.ParseFromString(answer.message()));
    return response;
  }

  FakeService fake_{};
  Service service_;
  GrpcServer server_{service_, {.address = "127.0.0.1"}};
  http2::Client client_{fmt::format("127.0.0.1:{}", server_.port())};
  std::size_t stream_ = 1;
};

class GuardedGrpcServer : public GrpcServerTest {
 protected:
  GuardedGrpcServer() : GrpcServerTest(Access::from_text("secret predict\n")) {}

  // Those of services whose messages are linked, and of reflection.
  static std::vector<std::string> methods() {
    std::vector<std::string> all{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                 "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"};
    for (const char* name : {"tensorflow.serving.PredictionService",
                             "tensorflow.serving.ModelService", "inference.GRPCInferenceService"}) {
      const auto* const service =
          google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
      for (int i = 0; i < service->method_count(); ++i) {
        all.push_back(fmt::format("/{}/{}", name, service->method(i)->name()));
      }
    }
    return all;
  }
};

TEST_F(GuardedGrpcServer, AsksForATokenInEveryCallButHealth) {
  std::vector<std::string> open;
  for (const std::string& method : methods()) {
    if (status_of(call(method, "")) != kUnauthenticated) open.push_back(method);
    if (status_of(call(method, "", "guess")) != kUnauthenticated) open.push_back(method);
  }
  const std::string live = "/inference.GRPCInferenceService/ServerLive";
  const std::string ready = "/inference.GRPCInferenceService/ServerReady";
  EXPECT_THAT(open, ElementsAre(live, live, ready, ready));
}

TEST_F(GuardedGrpcServer, TellsItsServicesToThoseWithAToken) {
  const std::string list = std::string("\x3A", 1) + std::string("\0", 1);  // list_services: "".
  const auto answer =
      call("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", list, "secret");
  EXPECT_EQ(status_of(answer), kOk);
  EXPECT_THAT(answer.message(), HasSubstr("inference.GRPCInferenceService"));
}

inference::ModelInferRequest infer_request() {
  inference::ModelInferRequest request;
  request.set_model_name("m");
  auto* const x = request.add_inputs();
  x->set_name("x");
  x->set_datatype("FP32");
  x->add_shape(2);
  return request;
}

void expect_raw_answer(const inference::ModelInferResponse& response) {
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_FALSE(response.outputs(0).has_contents());
  ASSERT_EQ(response.raw_output_contents_size(), 1);
  ASSERT_EQ(response.raw_output_contents(0).size(), 2 * sizeof(float));
  float values[2];
  std::memcpy(values, response.raw_output_contents(0).data(), sizeof values);
  EXPECT_THAT(values, ElementsAre(3, 4));
}

TEST_F(GrpcServerTest, AnswersInferencesRawHoweverTheyAreAsked) {
  inference::ModelInferRequest typed = infer_request();
  typed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  typed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(2);
  expect_raw_answer(ask<inference::ModelInferResponse>("ModelInfer", typed));
  inference::ModelInferRequest raw = infer_request();
  const float values[] = {1, 2};
  raw.add_raw_input_contents(std::string(reinterpret_cast<const char*>(values), sizeof values));
  expect_raw_answer(ask<inference::ModelInferResponse>("ModelInfer", raw));
}

TEST_F(GrpcServerTest, AnswersStringsWithTheirLengths) {
  inference::ModelInferRequest request = infer_request();
  request.mutable_inputs(0)->set_shape(0, 1);
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  auto* const text = request.add_inputs();
  text->set_name("text");
  text->set_datatype("BYTES");
  text->add_shape(1);
  text->mutable_contents()->add_bytes_contents("abc");
  (*request.mutable_parameters())["signature_name"].set_string_param("two");
  const auto response = ask<inference::ModelInferResponse>("ModelInfer", request);
  EXPECT_THAT(response.raw_output_contents(),
              ElementsAre(std::string("\3\0\0\0abc", 7), std::string("\0\0\x40\x40", 4)));
}

TEST_F(GrpcServerTest, LoadsNoConfigurationAndNoFilesOfItsClients) {
  inference::RepositoryModelLoadRequest request;
  request.set_model_name("m");
  const auto outcome = [&](const char* name, const char* value) {
    request.clear_parameters();
    (*request.mutable_parameters())[name].set_string_param(value);
    const auto answer =
        call("/inference.GRPCInferenceService/RepositoryModelLoad", request.SerializeAsString());
    const auto message = answer.fields.find("grpc-message");
    return status_of(answer) + (message == answer.fields.end() ? "" : " " + message->second);
  };
  EXPECT_THAT(outcome("config", R"("parameters": {"config": {{"max_batch_size": "16"}}})"),
              ::testing::StartsWith("3 failed to load 'm'"));
  EXPECT_THAT(outcome("config", R"({"max_batch_size": "16"})"),
              ::testing::StartsWith("12 failed to load 'm'"));
  EXPECT_THAT(outcome("file:1/model", "x"), ::testing::StartsWith("12 failed to load 'm'"));
  EXPECT_EQ(outcome("config", "{}"), kOk);
}

}  // namespace
}  // namespace muster::serving
