#include "muster/serving/grpc/http2_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "muster/serving/grpc/http2_client_fake.h"

namespace muster::serving {
namespace {

using http2::frame;

/// Keeps what comes.
class KeptStream : public Http2Stream {
 public:
  void on_field(std::string_view name, std::string_view value) override {
    fields.emplace_back(name, value);
  }
  void on_header_end() override { has_header = true; }
  void on_data(std::string_view bytes) override { data += bytes; }
  void on_end() override { is_ended = true; }
  void on_closed() override { is_gone = true; }

  Fields fields{};
  std::string data{};
  bool has_header = false;
  bool is_ended = false;
  bool is_gone = false;
};

class Http2SessionTest : public ::testing::Test {
 protected:
  void begin(Http2Session::Options options = {}) {
    session_.emplace(options, [this] {
      streams_.push_back(std::make_shared<KeptStream>());
      return streams_.back();
    });
    EXPECT_TRUE(session_->receive(http2::kHello));
  }

  // Passes the output of the session to the reader of the client.
  void exchange() {
    session_->take_output(sent_, 1 << 20);
    while (const auto one = http2::take_frame(sent_)) reader_->add(*one);
  }

  // Whether a client that sends many such frames is sent away.
  bool is_too_much(int count, const std::function<std::string(int)>& make) {
    for (int i = 0; i < count; ++i) {
      if (!session_->receive(make(i))) {
        exchange();
        return reader_->goaway() == NGHTTP2_ENHANCE_YOUR_CALM;
      }
      exchange();
    }
    return false;
  }

  std::optional<Http2Session> session_{};
  std::vector<std::shared_ptr<KeptStream>> streams_{};
  std::unique_ptr<http2::Reader> reader_ = std::make_unique<http2::Reader>();
  std::string sent_{};
};

std::string data_of(std::size_t stream, const std::string& bytes, char flags = 0) {
  return frame(http2::kData, flags, stream, bytes);
}

TEST_F(Http2SessionTest, ReadsARequestAndSendsItsAnswer) {
  begin();
  session_->receive(http2::begun_call(1, "/a/B") + data_of(1, "question", http2::kEndOfStream));
  ASSERT_EQ(streams_.size(), 1);
  KeptStream& stream = *streams_[0];
  EXPECT_THAT(stream.fields, ::testing::Contains(::testing::Pair(":path", "/a/B")));
  EXPECT_TRUE(stream.is_ended);
  EXPECT_EQ(stream.data, "question");
  session_->respond(stream, {{":status", "200"}});
  session_->send(stream, "ans");
  session_->send(stream, "wer");
  session_->end(stream, {{"x", "y"}});
  exchange();
  EXPECT_EQ((*reader_)[1].data, "answer");
  EXPECT_EQ((*reader_)[1].fields.at("x"), "y");
  EXPECT_TRUE((*reader_)[1].is_ended);
  EXPECT_TRUE(stream.is_gone);
  EXPECT_EQ(session_->streams(), 0);
}

TEST_F(Http2SessionTest, TakesBytesOneByOne) {
  session_.emplace(Http2Session::Options(), [this] {
    streams_.push_back(std::make_shared<KeptStream>());
    return streams_.back();
  });
  const std::string bytes =
      http2::kHello + http2::begun_call(1, "/a/B") + data_of(1, "x", http2::kEndOfStream);
  for (const char byte : bytes) ASSERT_TRUE(session_->receive({&byte, 1}));
  ASSERT_EQ(streams_.size(), 1);
  EXPECT_TRUE(streams_[0]->is_ended);
}

TEST_F(Http2SessionTest, SendsNoMoreThanItsClientLets) {
  begin();
  session_->receive(http2::begun_call(1, "/a/B") + data_of(1, "", http2::kEndOfStream));
  KeptStream& stream = *streams_[0];
  session_->respond(stream, {{":status", "200"}});
  session_->send(stream, std::string(200'000, 'x'));
  session_->end(stream, {});
  exchange();
  // A client that says nothing has a window of 64 KiB.
  EXPECT_EQ((*reader_)[1].data.size(), 65'535);
  EXPECT_EQ(stream.waiting_bytes(), 200'000 - 65'535);
  EXPECT_TRUE(session_->has_waiting_data());
  session_->receive(frame(http2::kWindowUpdate, 0, 0, http2::big_endian(1 << 20, 4)) +
                    frame(http2::kWindowUpdate, 0, 1, http2::big_endian(1 << 20, 4)));
  exchange();
  EXPECT_EQ((*reader_)[1].data.size(), 200'000);
  EXPECT_FALSE(session_->has_waiting_data());
  EXPECT_TRUE(stream.is_gone);
}

TEST_F(Http2SessionTest, LetsItsClientSendWhatWasConsumedAlone) {
  begin({.stream_window = 1'000});
  session_->receive(frame(http2::kSettings, http2::kAcknowledge, 0, ""));
  session_->receive(http2::begun_call(1, "/a/B") + data_of(1, std::string(1'000, 'x')));
  exchange();
  EXPECT_FALSE((*reader_)[1].reset);
  session_->consume(*streams_[0], 1'000);
  session_->receive(data_of(1, std::string(1'000, 'x')));
  exchange();
  EXPECT_FALSE((*reader_)[1].reset);
  EXPECT_EQ(streams_[0]->data.size(), 2'000);
  // Nothing is consumed now.
  session_->receive(data_of(1, "x"));
  exchange();
  EXPECT_EQ((*reader_)[1].reset, NGHTTP2_FLOW_CONTROL_ERROR);
}

TEST_F(Http2SessionTest, RefusesStreamsBeyondTheLimitAlsoOfAClientThatAcknowledgesNothing) {
  begin({.max_streams = 3});
  for (std::size_t id = 1; id < 21; id += 2) session_->receive(http2::begun_call(id, "/a/B"));
  exchange();
  EXPECT_EQ(session_->streams(), 3);
  EXPECT_FALSE((*reader_)[5].reset);
  EXPECT_EQ((*reader_)[7].reset, NGHTTP2_REFUSED_STREAM);
}

TEST_F(Http2SessionTest, TellsAClientToStopWhenItsAnswerIsThere) {
  begin();
  session_->receive(http2::begun_call(1, "/a/B"));
  session_->respond_only(*streams_[0], {{":status", "200"}, {"grpc-status", "12"}});
  exchange();
  EXPECT_TRUE((*reader_)[1].is_ended);
  EXPECT_EQ((*reader_)[1].reset, NGHTTP2_NO_ERROR);
  EXPECT_TRUE(streams_[0]->is_gone);
}

TEST_F(Http2SessionTest, SendsFloodsAway) {
  const auto id = [](int i) { return static_cast<std::size_t>(2 * i + 1); };
  const std::vector<std::function<std::string(int)>> floods{
      [](int) { return frame(http2::kPing, 0, 0, "12345678"); },
      [](int) { return frame(http2::kSettings, 0, 0, ""); },
      [&](int i) { return frame(http2::kPriority, 0, id(i), std::string("\0\0\0\0\x10", 5)); },
      [&](int i) { return http2::begun_call(id(i), "/a/B") + http2::reset(id(i)); },
      [&](int i) { return i == 0 ? http2::begun_call(1, "/a/B") : data_of(1, ""); }};
  for (std::size_t i = 0; i < floods.size(); ++i) {
    reader_ = std::make_unique<http2::Reader>();
    sent_.clear();
    begin({.frames_per_second = 0});
    EXPECT_TRUE(is_too_much(5'000, floods[i])) << i;
  }
}

TEST_F(Http2SessionTest, EndsHeadersThatDoNotEnd) {
  begin();
  session_->receive(frame(http2::kHeaders, 0, 1, http2::call_headers("/a/B")));
  bool goes_on = true;
  for (int i = 0; i < 5'000 && goes_on; ++i) {
    goes_on = session_->receive(frame(http2::kContinuation, 0, 1, ""));
  }
  EXPECT_FALSE(goes_on);
}

TEST_F(Http2SessionTest, LetsAClientPingAsLongAsItAlsoCalls) {
  begin({.most_frames = 20, .frames_per_second = 0, .frames_per_answer = 20});
  for (std::size_t id = 1; id < 201; id += 2) {
    std::string bytes = http2::begun_call(id, "/a/B") + data_of(id, "", http2::kEndOfStream);
    for (int i = 0; i < 15; ++i) bytes += frame(http2::kPing, 0, 0, "12345678");
    ASSERT_TRUE(session_->receive(bytes)) << id;
    session_->respond(*streams_.back(), {{":status", "200"}});
    session_->end(*streams_.back(), {});
    exchange();
  }
}

TEST_F(Http2SessionTest, IsOverWhenItWasToldToGoAndTheLastStreamHasEnded) {
  begin();
  session_->receive(http2::begun_call(1, "/a/B"));
  session_->begin_goaway();
  exchange();
  EXPECT_EQ(reader_->goaway(), NGHTTP2_NO_ERROR);
  // One that was on its way is still taken.
  session_->receive(http2::begun_call(3, "/a/B"));
  EXPECT_EQ(session_->streams(), 2);
  session_->finish_goaway();
  exchange();
  session_->receive(http2::begun_call(5, "/a/B"));
  EXPECT_EQ(session_->streams(), 2);
  EXPECT_FALSE(session_->is_over());
  for (const auto& stream : streams_) session_->respond_only(*stream, {{":status", "200"}});
  exchange();
  EXPECT_TRUE(session_->is_over());
}

TEST_F(Http2SessionTest, ClosesWhatIsOpenAtItsEnd) {
  begin();
  session_->receive(http2::begun_call(1, "/a/B"));
  session_.reset();
  EXPECT_TRUE(streams_[0]->is_gone);
}

TEST_F(Http2SessionTest, EndsWithWhatIsNoHttp2) {
  for (const char* bytes :
       {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "\x16\x03\x01\x02", "PRI * HTTP/2.1"}) {
    Http2Session session({}, [] { return std::make_shared<KeptStream>(); });
    EXPECT_FALSE(session.receive(bytes)) << bytes;
  }
}

}  // namespace
}  // namespace muster::serving
