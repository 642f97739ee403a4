#include "muster/server/grpc_server.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "muster/inference.pb.h"
#include "muster/server/fake_service_internal.h"
#include "muster/server/http2_client_internal.h"
#include "muster/serving.pb.h"

namespace muster::server {
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

}  // namespace
}  // namespace muster::server
