#include "muster/serving/load/client_session.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/random.h"
#include "muster/serving/grpc/http2_client_fake.h"

namespace muster::serving {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// A session and the answers that it has reported.
struct Asked {
  explicit Asked(bool over_grpc, ClientSession::Options options = {}) {
    options.authority = "host:1";
    options.keep_bodies = true;
    const auto on_answer = [this](ClientAnswer answer) { answers.push_back(std::move(answer)); };
    session = over_grpc ? grpc_session(options, on_answer) : http1_session(options, on_answer);
  }
  std::string output() {
    std::string out;
    session->take_output(out);
    return out;
  }

  std::vector<ClientAnswer> answers{};
  std::unique_ptr<ClientSession> session;
};

const PreparedRequest kRequest{.path = "/v1/models/m:predict", .body = "{}"};

std::string ok_answer(const std::string& body, const std::string& fields = "") {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n{}", body.size(), fields,
                     body);
}

TEST(Http1Session, SendsARequestWithItsToken) {
  Asked asked(false, {.token = "secret"});
  asked.session->send(1, kRequest);
  EXPECT_EQ(asked.output(),
            "POST /v1/models/m:predict HTTP/1.1\r\nHost: host:1\r\nAuthorization: Bearer secret\r\n"
            "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_FALSE(asked.session->can_send());
}

TEST(Http1Session, TakesAnswersInPiecesOfAnySize) {
  const std::string chunked =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  const std::string late = "HTTP/1.1 100 Continue\r\n\r\n" + ok_answer("abcde");
  for (const std::string& bytes : {ok_answer("abcde"), chunked, late}) {
    for (std::size_t size = 1; size <= bytes.size(); ++size) {
      Asked asked(false);
      asked.session->send(7, kRequest);
      for (std::size_t at = 0; at < bytes.size(); at += size) {
        ASSERT_TRUE(asked.session->receive(std::string_view(bytes).substr(at, size)));
      }
      ASSERT_THAT(asked.answers, SizeIs(1));
      EXPECT_EQ(asked.answers[0].tag, 7U);
      EXPECT_EQ(asked.answers[0].body, "abcde");
      EXPECT_TRUE(asked.session->can_send());
    }
  }
}

TEST(Http1Session, ReportsFailuresInTheServersWords) {
  Asked asked(false);
  asked.session->send(1, kRequest);
  asked.session->receive("HTTP/1.1 503 Busy\r\ncontent-length: 11\r\n\r\n{\n  \"busy\"}");
  ASSERT_THAT(asked.answers, SizeIs(1));
  EXPECT_EQ(asked.answers[0].kind, AnswerKind::kFailed);
  EXPECT_EQ(asked.answers[0].error, "HTTP 503");
  EXPECT_EQ(asked.answers[0].message, "{ \"busy\"}");
}

TEST(Http1Session, EndsWithAnAnswerThatClosesTheConnection) {
  Asked asked(false);
  asked.session->send(1, kRequest);
  EXPECT_FALSE(asked.session->receive(ok_answer("a", "Connection: close\r\n")));
  ASSERT_THAT(asked.answers, SizeIs(1));
  EXPECT_EQ(asked.answers[0].kind, AnswerKind::kOk);
  EXPECT_FALSE(asked.session->can_send());
}

TEST(Http1Session, ReportsAConnectionThatIsClosedBeforeTheAnswer) {
  for (const char* const begun : {"", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"}) {
    Asked asked(false);
    asked.session->send(1, kRequest);
    asked.session->receive(begun);
    asked.session->close("closed");
    ASSERT_THAT(asked.answers, SizeIs(1));
    EXPECT_EQ(asked.answers[0].error, "connection closed");
  }
}

TEST(Http1Session, RefusesWhatIsNoHttpAndLengthsThatAreTooLarge) {
  for (const char* const bytes :
       {"HELLO WORLD HELLO\r\n\r\n", "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff0\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"}) {
    Asked asked(false, {.most_answer_bytes = 100});
    asked.session->send(1, kRequest);
    EXPECT_FALSE(asked.session->receive(bytes)) << bytes;
    ASSERT_THAT(asked.answers, SizeIs(1)) << bytes;
    EXPECT_EQ(asked.answers[0].error, "bad answer");
  }
}

TEST(Http1Session, SurvivesAnyBytes) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    std::string bytes =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for (int i = 0; i < 3; ++i)
      bytes[random.below(bytes.size())] = static_cast<char>(random.next_u32());
    Asked asked(false);
    asked.session->send(1, kRequest);
    asked.session->receive(bytes);
    asked.session->close("closed");
    EXPECT_THAT(asked.answers, SizeIs(1));
  }
}

// The server's side of a call on stream 1.
std::string grpc_answer(const std::string& trailers, const std::string& message = "answer") {
  return http2::frame(http2::kSettings, 0, 0, "") +
         http2::frame(http2::kHeaders, http2::kEndOfHeaders, 1, http2::header(":status", "200")) +
         http2::message(1, message, 0) +
         http2::frame(http2::kHeaders, http2::kEndOfHeaders | http2::kEndOfStream, 1, trailers);
}

TEST(GrpcSession, TakesAnswersInPiecesOfAnySize) {
  const std::string bytes = grpc_answer(http2::header("grpc-status", "0"));
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    Asked asked(true, {.token = "secret", .deadline_nanoseconds = 2'000'000'000});
    asked.session->send(9, kRequest);
    EXPECT_THAT(asked.output(), AllOf(HasSubstr("PRI * HTTP/2.0"), HasSubstr("{}")));
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      ASSERT_TRUE(asked.session->receive(std::string_view(bytes).substr(at, size)));
    }
    ASSERT_THAT(asked.answers, SizeIs(1));
    EXPECT_EQ(asked.answers[0].tag, 9U);
    EXPECT_EQ(asked.answers[0].kind, AnswerKind::kOk);
    EXPECT_EQ(asked.answers[0].body, "answer");
    EXPECT_EQ(asked.session->in_flight(), 0U);
  }
}

TEST(GrpcSession, ReportsTheStatusInTheServersWords) {
  Asked asked(true);
  asked.session->send(1, kRequest);
  asked.output();
  asked.session->receive(grpc_answer(http2::header("grpc-status", "8") +
                                     http2::header("grpc-message", "100%25 busy")));
  ASSERT_THAT(asked.answers, SizeIs(1));
  EXPECT_EQ(asked.answers[0].error, "RESOURCE_EXHAUSTED");
  EXPECT_EQ(asked.answers[0].message, "100% busy");
}

TEST(GrpcSession, SaysThatARefusedStreamWasNotTaken) {
  Asked asked(true);
  asked.session->send(1, kRequest);
  asked.output();
  asked.session->receive(
      http2::frame(http2::kSettings, 0, 0, "") +
      http2::frame(http2::kResetStream, 0, 1, http2::big_endian(NGHTTP2_REFUSED_STREAM, 4)));
  ASSERT_THAT(asked.answers, SizeIs(1));
  EXPECT_EQ(asked.answers[0].kind, AnswerKind::kNotTaken);
}

TEST(GrpcSession, SendsNothingAfterAGoaway) {
  Asked asked(true);
  asked.session->send(1, kRequest);
  asked.output();
  // The server has taken no stream.
  asked.session->receive(http2::frame(http2::kSettings, 0, 0, "") +
                         http2::frame(http2::kGoaway, 0, 0, std::string(8, '\0')));
  ASSERT_THAT(asked.answers, SizeIs(1));
  EXPECT_EQ(asked.answers[0].kind, AnswerKind::kNotTaken);
  EXPECT_FALSE(asked.session->can_send());
}

TEST(GrpcSession, ReportsNoAnswerThatWasGivenUp) {
  Asked asked(true);
  asked.session->send(1, kRequest);
  asked.output();
  EXPECT_TRUE(asked.session->cancel(1));
  EXPECT_NE(asked.output(), "");
  asked.session->receive(grpc_answer(http2::header("grpc-status", "0")));
  asked.session->close("closed");
  EXPECT_THAT(asked.answers, SizeIs(0));
}

TEST(GrpcSession, ReportsAllThatIsOpenWhenTheConnectionIsClosed) {
  Asked asked(true);
  asked.session->send(1, kRequest);
  asked.output();
  asked.session->send(2, kRequest);  // Never given to the socket.
  asked.session->close("closed");
  ASSERT_THAT(asked.answers, SizeIs(2));
  for (const ClientAnswer& answer : asked.answers) {
    EXPECT_EQ(answer.kind, answer.tag == 1 ? AnswerKind::kFailed : AnswerKind::kNotTaken);
  }
}

TEST(GrpcSession, SurvivesAnyBytes) {
  const std::string good = grpc_answer(http2::header("grpc-status", "0"));
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    std::string bytes = good;
    for (int i = 0; i < 3; ++i)
      bytes[random.below(bytes.size())] = static_cast<char>(random.next_u32());
    Asked asked(true);
    asked.session->send(1, kRequest);
    asked.output();
    asked.session->receive(bytes);
    asked.session->close("closed");
    EXPECT_THAT(asked.answers, SizeIs(1)) << seed;
  }
}

TEST(Http1Session, TakesABodyThatEndsWithTheConnection) {
  Asked asked(false);
  asked.session->send(1, kRequest);
  EXPECT_TRUE(asked.session->receive("HTTP/1.1 200 OK\r\n\r\nab"));
  EXPECT_TRUE(asked.session->receive("c"));
  asked.session->close("closed");
  ASSERT_THAT(asked.answers, SizeIs(1));
  EXPECT_EQ(asked.answers[0].kind, AnswerKind::kOk);
  EXPECT_EQ(asked.answers[0].body, "abc");
}

TEST(Http1Session, KnowsBodiesInChunksByTheLastCoding) {
  const auto answered = [](const std::string& coding) {
    Asked asked(false);
    asked.session->send(1, kRequest);
    asked.session->receive("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + coding +
                           "\r\n\r\n2\r\nab\r\n0\r\n\r\n");
    return asked.answers;
  };
  ASSERT_THAT(answered("gzip, Chunked"), SizeIs(1));
  EXPECT_EQ(answered("gzip, Chunked")[0].body, "ab");
  ASSERT_THAT(answered("gzip"), SizeIs(1));
  EXPECT_EQ(answered("gzip")[0].message, "its Transfer-Encoding is not chunked");
}

TEST(ClientSession, SaysAtOnceThatTheServerSpeaksAnotherProtocol) {
  Asked http(false);
  http.session->send(1, kRequest);
  EXPECT_FALSE(http.session->receive(http2::frame(http2::kSettings, 0, 0, "")));
  Asked grpc(true);
  grpc.session->send(1, kRequest);
  grpc.output();
  EXPECT_FALSE(grpc.session->receive("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"));
  for (const Asked* const asked : {&http, &grpc}) {
    ASSERT_THAT(asked->answers, SizeIs(1));
    EXPECT_EQ(asked->answers[0].error, "bad answer");
    EXPECT_THAT(asked->answers[0].message, HasSubstr("its answer is not HTTP/"));
  }
}

TEST(GrpcSession, MaySendAnotherWhenOneWasGivenUp) {
  Asked asked(true, {.most_streams = 1});
  asked.session->send(1, kRequest);
  EXPECT_FALSE(asked.session->can_send());
  EXPECT_TRUE(asked.session->cancel(1));
  EXPECT_TRUE(asked.session->can_send());
}

}  // namespace
}  // namespace muster::serving
