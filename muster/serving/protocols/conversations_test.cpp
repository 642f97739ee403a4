// Whole conversations over HTTP/1.1 and HTTP/2, damaged in some bytes: whatever a client sends, the
// server refuses it or answers, and continues with the others.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/random.h"
#include "muster/serving/core/service_fake.h"
#include "muster/serving/grpc/http2_client_fake.h"
#include "muster/serving/http/http_message.h"
#include "muster/serving/http/http_server.h"
#include "muster/serving/protocols/grpc_server.h"
#include "muster/serving/protocols/rest_api.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/raw_tcp.h"

namespace muster::serving {
namespace {

using ::testing::HasSubstr;
using testing::RawTcp;

int conversations(int in_short, int in_long) {
  return testing::are_tests_long() ? in_long : in_short;
}

std::string shuffled_bytes(std::size_t size, Random& random) {
  std::string bytes;
  while (bytes.size() < size) bytes += static_cast<char>(random.next_u32());
  return bytes;
}

// Changes, takes out, doubles or puts in some bytes, or cuts off the end.
void damage_once(std::string& bytes, Random& random) {
  if (bytes.empty()) return;
  const std::size_t at = random.next_u32() % bytes.size();
  const std::size_t size = 1 + random.next_u32() % 16;
  switch (random.next_u32() % 6) {
    case 0:
      bytes[at] = static_cast<char>(random.next_u32());
      break;
    case 1:
      bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^
                                    (1U << (random.next_u32() % 8)));
      break;
    case 2:
      bytes.erase(at, size);
      break;
    case 3:
      bytes.insert(at, bytes.substr(at, size));
      break;
    case 4:
      bytes.insert(at, shuffled_bytes(size, random));
      break;
    default:
      bytes.resize(at);
  }
}

std::string damaged(std::string bytes, Random& random) {
  for (std::uint32_t times = 1 + random.next_u32() % 4; times > 0; --times) {
    damage_once(bytes, random);
  }
  return bytes;
}

// ------------------------------------------------------------------------------------- HTTP/1.1

std::string posted(const char* target, const std::string& body, const char* more = "") {
  return fmt::format("POST {} HTTP/1.1\r\nHost: h\r\n{}Content-Length: {}\r\n\r\n{}", target, more,
                     body.size(), body);
}

std::vector<std::string> http_conversations() {
  const std::string predict = posted("/v1/models/m:predict", R"({"instances": [1, 2.5]})");
  return {predict + predict,
          "GET /v1/models/m/metadata HTTP/1.1\r\nHost: h\r\n\r\n" + predict,
          posted("/v2/models/m/infer",
                 R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]})"),
          posted("/v1/models/m/versions/1:predict",
                 gzipped(R"({"signature_name": "two", "inputs": {"text": ["a"], "x": [1]}})"),
                 "Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n"),
          posted("/v1/models/m:classify",
                 R"({"signature_name": "classify", "examples": [{"a": 1, "b": ["x", "y"]}]})",
                 "Expect: 100-continue\r\n"),
          "POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
          "10;x=\"y\"\r\n{\"instances\": [1\r\n2\r\n]}\r\n0\r\nTrailer: t\r\n\r\n" +
              predict};
}

TEST(Conversations, DamagedHttpIsRefusedOrAnswered) {
  FakeService fake;
  RestApi api(fake.service(), {.repository_control = false});
  HttpServer server(
      {.address = "127.0.0.1", .loop = fake.service().loop(), .workers = 2},
      [&](HttpRequest request) { return api.handle(std::move(request)); }, RestApi::queue_of,
      [&](HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        return api.start(request, reply);
      });
  const std::string address = fmt::format("127.0.0.1:{}", server.port());
  const auto talk = [&](std::string_view bytes) {
    RawTcp client(address);
    client.send(bytes);
    ::shutdown(client.descriptor(), SHUT_WR);
    return client.read_to_end();
  };
  const auto whole = http_conversations();
  for (const std::string& bytes : whole) {
    EXPECT_THAT(talk(bytes), HasSubstr("HTTP/1.1 200 OK")) << bytes;
  }
  const int count = conversations(300, 100'000);
  for (int i = 0; i < count; ++i) {
    Random random(static_cast<std::uint64_t>(i));
    const std::string bytes = damaged(whole[random.next_u32() % whole.size()], random);
    const std::string answers = talk(bytes);
    ASSERT_TRUE(answers.empty() || answers.starts_with("HTTP/1.1 ")) << i << ": " << answers;
    ASSERT_EQ(answers.find("HTTP/1.1 500"), answers.npos) << i << ": " << answers;
  }
  EXPECT_THAT(talk(whole.front()), HasSubstr("[3.0, 4.5"));
}

// --------------------------------------------------------------------------------- HTTP/2 and gRPC

// A field of a message that has a length.
std::string field(int number, const std::string& bytes) {
  return static_cast<char>(number << 3 | 2) + http2::big_endian(bytes.size(), 1) + bytes;
}

// PredictRequest: model_spec {name: "m"}, inputs {x: DT_FLOAT [1] {1}}.
std::string predict_message() {
  const std::string shape = field(2, std::string("\x08\x01", 2));
  const std::string tensor =
      std::string("\x08\x01", 2) + field(2, shape) + field(5, std::string("\x00\x00\x80\x3F", 4));
  return field(1, field(1, "m")) + field(2, field(1, "x") + field(2, tensor));
}

constexpr const char* kPredict = "/tensorflow.serving.PredictionService/Predict";

std::string call(std::size_t stream, const std::string& message) {
  return http2::begun_call(stream, kPredict) + http2::message(stream, message);
}

std::string reset_call(std::size_t stream, const std::string& method) {
  return http2::begun_call(stream, method) + http2::reset(stream);
}

std::string grpc_conversation() {
  return http2::kHello + call(1, predict_message()) + http2::frame(http2::kPing, 0, 0, "12345678") +
         http2::frame(http2::kWindowUpdate, 0, 0, http2::big_endian(1 << 20, 4)) +
         call(3, predict_message());
}

// Output of version 2 for the input 1, in an answer.
const std::string kThree("\x00\x00\x40\x40", 4);

// Until nothing comes for some time, or `wanted` has.
std::string answers_of(RawTcp& client, std::chrono::milliseconds quiet, const std::string& wanted) {
  std::string all;
  char piece[1 << 12];
  while (wanted.empty() || all.find(wanted) == all.npos) {
    pollfd ready{.fd = client.descriptor(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(quiet.count())) <= 0) break;
    const ssize_t count = ::recv(client.descriptor(), piece, sizeof piece, 0);
    if (count <= 0) break;
    all.append(piece, static_cast<std::size_t>(count));
  }
  return all;
}

TEST(Conversations, DamagedGrpcIsRefusedOrAnswered) {
  FakeService fake;
  GrpcServer server(fake.service(), {.address = "127.0.0.1", .repository_control = false});
  const std::string address = fmt::format("127.0.0.1:{}", server.port());
  const auto expect_an_answer = [&](int after) {
    RawTcp client(address);
    client.send(grpc_conversation());
    ASSERT_THAT(answers_of(client, std::chrono::minutes(1), kThree), HasSubstr(kThree)) << after;
  };
  expect_an_answer(-1);
  const int count = conversations(100, 20'000);
  for (int i = 0; i < count; ++i) {
    Random random(static_cast<std::uint64_t>(i));
    RawTcp client(address);
    client.send(damaged(grpc_conversation(), random));
    answers_of(client, std::chrono::milliseconds(5), "");
    if (i % 25 == 24) expect_an_answer(i);
  }
  expect_an_answer(count);
}

// Calls that are begun and reset at once; whether the server went before all were sent.
bool is_disconnected(RawTcp& client, const std::string& method, std::size_t calls) {
  // Nothing more is read from a client that does not read.
  const std::jthread reader([&] {
    char piece[1 << 12];
    while (::recv(client.descriptor(), piece, sizeof piece, 0) > 0) continue;
  });
  constexpr std::size_t kAtOnce = 1'000;
  std::string bytes;
  for (std::size_t i = 0; i < calls; ++i) {
    bytes += reset_call(2 * i + 1, method);
    if ((i + 1) % kAtOnce == 0 && !client.send(std::exchange(bytes, {}))) return true;
  }
  ::shutdown(client.descriptor(), SHUT_RDWR);
  return false;
}

TEST(Conversations, AClientThatResetsItsCallsIsDisconnectedWhateverItCalls) {
  FakeService fake;
  // So few that a slow client too has more calls than may be left to be done.
  GrpcServer server(fake.service(), {.address = "127.0.0.1",
                                     .channel_arguments = {{"grpc.max_concurrent_streams", "5"}}});
  const std::string address = fmt::format("127.0.0.1:{}", server.port());
  for (const std::string method :
       {kPredict, "/tensorflow.serving.ModelService/GetModelStatus",
        "/inference.GRPCInferenceService/ModelStreamInfer", "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/nobody/Nothing"}) {
    RawTcp client(address);
    client.send(http2::kHello);
    EXPECT_TRUE(is_disconnected(client, method, 200'000)) << method;
    RawTcp other(address);
    other.send(grpc_conversation());
    EXPECT_THAT(answers_of(other, std::chrono::minutes(1), kThree), HasSubstr(kThree)) << method;
  }
}

TEST(Conversations, AClientMayResetSomeOfItsCalls) {
  FakeService fake;
  GrpcServer server(fake.service(), {.address = "127.0.0.1"});
  RawTcp client(fmt::format("127.0.0.1:{}", server.port()));
  client.send(http2::kHello);
  std::size_t stream = 1;
  // In all far more than it may have at one time.
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 100; ++i, stream += 2) client.send(reset_call(stream, kPredict));
    client.send(call(stream, predict_message()));
    stream += 2;
    ASSERT_THAT(answers_of(client, std::chrono::minutes(1), kThree), HasSubstr(kThree)) << round;
  }
}

}  // namespace
}  // namespace muster::serving
