#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

struct nghttp2_session;

namespace muster::serving {

class Http2Session;

/// One request and its answer, implemented by the server. The session calls its functions,
/// always from within a function of the session.
class Http2Stream {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  virtual ~Http2Stream() = default;

  /// A field of the header, names in lower case; the views end with the call.
  virtual void on_field(std::string_view name, std::string_view value) = 0;
  virtual void on_header_end() = 0;
  virtual void on_data(std::string_view bytes) = 0;
  /// The request is whole.
  virtual void on_end() = 0;
  /// All that was given to be sent so far is with the connection.
  virtual void on_sent() {}
  /// The answer is sent, or one side has reset the stream. Nothing follows, and nothing is sent
  /// any more.
  virtual void on_closed() = 0;

  /// Bytes that wait to be sent.
  std::size_t waiting_bytes() const { return waiting_bytes_; }
  bool is_request_ended() const { return request_ended_; }
  bool is_answer_begun() const { return response_begun_; }
  bool is_closed() const { return closed_; }

 private:
  friend class Http2Session;
  friend struct Http2Callbacks;

  std::int32_t id_ = 0;
  std::deque<std::string> waiting_{};
  std::size_t front_sent_ = 0;
  std::size_t waiting_bytes_ = 0;
  Fields trailers_{};
  bool in_trailers_ = false;
  bool request_ended_ = false;
  bool response_begun_ = false;
  bool response_ended_ = false;
  bool is_deferred_ = false;
  bool closed_ = false;
};

/// The server's end of an HTTP/2 connection without its socket: bytes that came go in, bytes to be
/// sent come out. One thread at a time.
///
/// A client has a budget of frames that cost the server more than the client: PING, SETTINGS,
/// PRIORITY, RST_STREAM, CONTINUATION, DATA without data, and whatever is wrong. Time, answers and
/// data add to it. One that has none left is sent away with ENHANCE_YOUR_CALM.
class Http2Session {
 public:
  using Clock = std::chrono::steady_clock;
  using Fields = Http2Stream::Fields;

  struct Options {
    /// Open at one time; clients wait with more, and have them refused when they do not.
    std::uint32_t max_streams = 1'000;
    /// Names and values and 32 bytes for each; fields beyond are dropped, see on_header_end().
    std::size_t max_header_bytes = 16 << 10;
    /// Flow-control windows: bytes that a client may send before they are consumed.
    std::uint32_t stream_window = 1 << 20;
    std::uint32_t connection_window = 8 << 20;
    /// The budget of frames: at most, per second, for each answer, and for each KiB of data.
    double most_frames = 2'000;
    double frames_per_second = 500;
    double frames_per_answer = 200;
    double frames_per_kib = 1;
  };
  using MakeStream = std::function<std::shared_ptr<Http2Stream>()>;

  Http2Session(const Options& options, MakeStream make_stream);
  /// Streams that are left are closed.
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  /// False when the connection is over; what is to be sent goes out before it is closed.
  bool receive(std::string_view bytes);
  /// Appends what is to be sent until `out` has `most` bytes or there is no more.
  void take_output(std::string& out, std::size_t most);
  /// Neither side has anything more to say.
  bool is_over() const;
  bool has_output() const;

  /// The header of an answer; `send` and `end` follow. To a stream that is closed nothing is sent.
  void respond(Http2Stream& stream, const Fields& header);
  void send(Http2Stream& stream, std::string bytes);
  /// The end of an answer with its trailers. A client that still sends is told to stop.
  void end(Http2Stream& stream, Fields trailers);
  /// A whole answer that is a header.
  void respond_only(Http2Stream& stream, const Fields& header);
  void reset(Http2Stream& stream);
  /// Lets the client send this many more bytes on the stream.
  void consume(Http2Stream& stream, std::size_t bytes);

  /// Says that no new streams are wanted: first with a ping, so that those on the way are answered.
  void begin_goaway();
  /// From now on none are taken; the session is over when those that are open have ended.
  void finish_goaway();
  bool goaway_begun() const { return goaway_begun_; }
  /// Closes all streams; nothing is received after it.
  void close();
  void ping();

  std::size_t streams() const { return streams_.size(); }
  const std::unordered_map<std::int32_t, std::shared_ptr<Http2Stream>>& open() const {
    return streams_;
  }
  /// A sign of life of what was sent by ping().
  Clock::time_point last_pong() const { return last_pong_; }
  /// Whether a stream has something to send that its window does not let out.
  bool has_waiting_data() const { return waiting_bytes_ > 0; }
  /// Bytes of data that went out, ever.
  std::uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  friend struct Http2Callbacks;

  void refill();
  void spend(double frames);
  Http2Stream* find(std::int32_t id);
  void close_stream(std::int32_t id);
  void resume(Http2Stream& stream);

  Options options_;
  MakeStream make_stream_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<std::int32_t, std::shared_ptr<Http2Stream>> streams_{};
  // Those that wait for the client to read; they are asked for more in on_sent().
  std::vector<std::int32_t> sent_{};
  double frames_left_;
  Clock::time_point refilled_ = Clock::now();
  Clock::time_point last_pong_ = Clock::now();
  std::size_t waiting_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;
  bool too_much_ = false;
  bool goaway_begun_ = false;
  bool goaway_finished_ = false;
  bool closed_ = false;
};

}  // namespace muster::serving
