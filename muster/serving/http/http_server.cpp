#include "muster/serving/http/http_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <condition_variable>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/thread_pool.h"
#include "muster/serving/listener/blocking_pool.h"
#include "muster/serving/listener/event_loop.h"
#include "muster/serving/listener/fair_queue.h"
#include "muster/serving/listener/this_host.h"
#include "muster/serving/listener/tls_context.h"

namespace muster::serving {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
// Not tcp::socket: that one finds out at run time what executes its handlers.
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;
using TlsStream = asio::ssl::stream<Socket&>;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostTargetBytes = 8 << 10;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kLingerTime{2000};
constexpr std::chrono::milliseconds kEndAgain{5};
constexpr std::size_t kMostLingerBytes = std::size_t{16} << 20;
constexpr std::size_t kFirstReadBytes = 2 << 10;
// What a connection without a request may keep.
constexpr std::size_t kMostIdleBytes = 8 << 10;
constexpr std::size_t kMostReadBytes = 64 << 10;
// A smaller answer goes out as one piece with its header.
constexpr std::size_t kJoinedAnswerBytes = 16 << 10;
constexpr std::size_t kUsualFields = 8;
constexpr std::size_t kUsualHeaderBytes = 128;
constexpr std::size_t kMostKeptHeaderBytes = 1 << 10;
// What may wait for a client that follows a stream.
constexpr std::size_t kMostStreamBytes = std::size_t{4} << 20;
// Connections beyond the limit that are told so before they are closed.
constexpr std::size_t kToldConnections = 256;

/// The body of a request, which takes memory as it comes: a header that claims 64 MiB costs none.
struct GrowingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>& length, error_code& error) {
      error = {};
      if (length) length_ = *length;
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& error) {
      error = {};
      std::size_t size = 0;
      for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers);
           ++it) {
        const asio::const_buffer piece(*it);
        make_room(body_.size() + piece.size());
        body_.append(static_cast<const char*>(piece.data()), piece.size());
        size += piece.size();
      }
      return size;
    }
    void finish(error_code& error) { error = {}; }

   private:
    // By doubling, but no further than what is to come.
    void make_room(std::size_t needed) {
      if (needed <= body_.capacity()) return;
      std::size_t room = std::max(needed, 2 * body_.capacity());
      if (length_) room = std::max<std::size_t>(needed, std::min<std::uint64_t>(room, *length_));
      std::string larger;  // Anew: reserve() doubles what there is, whatever is asked of it.
      larger.reserve(room);
      larger += body_;
      body_.swap(larger);
    }

    value_type& body_;
    std::optional<std::uint64_t> length_{};
  };
};

// "localhost:8501", "[::1]": nothing but a name or an address and a port, or nothing at all.
bool is_host(std::string_view text) {
  const auto is_made_of = [](std::string_view part, std::string_view more) {
    return std::ranges::all_of(part, [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             more.find(c) != more.npos;
    });
  };
  const bool is_in_brackets = text.starts_with('[');
  const auto end = is_in_brackets ? text.find(']') : std::min(text.find(':'), text.size());
  if (end == text.npos) return false;
  const std::string_view name = text.substr(is_in_brackets ? 1 : 0, end - (is_in_brackets ? 1 : 0));
  const std::string_view port = text.substr(is_in_brackets ? end + 1 : end);
  const bool is_port =
      port.empty() || (port.front() == ':' && port.find_first_not_of("0123456789", 1) == port.npos);
  return is_port && is_made_of(name, is_in_brackets ? ":.%-" : "-._~!$&'()*+,;=%");
}

// Why the Host of a request is refused, as RFC 9112 wants it; nothing where it is right.
template <typename Fields>
const char* wrong_host(const http::header<true, Fields>& header) {
  const auto count = header.count(http::field::host);
  if (count > 1) return "the request has more than one Host header; send one";
  if (count == 0) {
    return header.version() >= 11 ? "the request has no Host header, which HTTP/1.1 needs"
                                  : nullptr;
  }
  const auto host = header[http::field::host];
  return is_host({host.data(), host.size()}) ? nullptr
                                             : "the Host header of the request is no HOST:PORT";
}

class Session;

/// What all connections of a server share.
struct Shared {
  HttpServerOptions options{};
  HttpServer::Handle handle{};
  HttpServer::QueueOf queue_of{};
  std::atomic<bool> draining{false};
  HttpServer::Start start{};
  std::optional<FairQueue> jobs{};
  std::optional<BlockingPool> workers{};

  std::mutex mutex{};
  std::condition_variable changed{};
  std::set<Session*> sessions{};
  // What still uses sockets of the loop: sessions, also those that end, and what accepts.
  std::size_t users = 0;
  // Those whose answers go on: nothing else keeps them between two pieces.
  std::set<std::shared_ptr<Session>> streaming{};

  void enter(Session& session) {
    const std::lock_guard lock(mutex);
    sessions.insert(&session);
  }
  void leave(Session& session) {
    const std::lock_guard lock(mutex);
    sessions.erase(&session);
    changed.notify_all();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return sessions.size();
  }
};

/// Says that the loop is in use, up to its end.
class LoopUse {
 public:
  explicit LoopUse(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {
    const std::lock_guard lock(shared_->mutex);
    ++shared_->users;
  }
  ~LoopUse() {
    const std::lock_guard lock(shared_->mutex);
    --shared_->users;
    shared_->changed.notify_all();
  }
  LoopUse(const LoopUse&) = delete;
  LoopUse& operator=(const LoopUse&) = delete;

 private:
  std::shared_ptr<Shared> shared_;
};

/// What a handler holds of a session whose answer goes on.
class SessionStream final : public HttpStream {
 public:
  explicit SessionStream(const std::shared_ptr<Session>& session) : session_(session) {}
  bool send(std::string_view bytes) override;
  void close() override;

 private:
  std::weak_ptr<Session> session_;
};

/// One connection: requests one after the other. One operation is under way at a time, in whichever
/// thread, so nothing in it needs a mutex; what other threads may call besides is said there.
class Session final : public std::enable_shared_from_this<Session>, public HttpReply {
 public:
  /// Without TLS when there is no context.
  Session(Socket socket, std::shared_ptr<asio::ssl::context> tls, std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)),
        use_(shared_),
        tls_context_(std::move(tls)),
        socket_(std::move(socket)),
        held_(shared_->options.body_budget) {
    if (tls_context_) tls_ = std::make_unique<TlsStream>(socket_, *tls_context_);
    error_code error;
    const auto peer = socket_.remote_endpoint(error);
    if (!error) {
      peer_ = peer.address().to_string();
      from_this_host_ = is_this_host(*peer.data());
    }
    socket_.set_option(tcp::no_delay(true), error);
    if (!tls_) socket_.non_blocking(true, error);
    buffer_.max_size(std::max(kMostReadBytes, 2 * shared_->options.max_header_bytes));
    shared_->enter(*this);
  }
  // Leaves before its socket goes: whoever finds it among the sessions may end() it.
  ~Session() override { shared_->leave(*this); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start() {
    if (!tls_) return read_request();
    expire_after(shared_->options.header_timeout);
    tls_->async_handshake(asio::ssl::stream_base::server,
                          [self = shared_from_this()](error_code error) {
                            if (!error) self->read_request();
                          });
  }

  /// In place of start(): says that there are too many connections.
  void turn_away() {
    if (tls_) return;
    refuse(503, ErrorCode::kUnavailable,
           fmt::format("there are {} connections already, which is the limit; try again later",
                       shared_->options.max_connections));
  }

  /// Any thread may call it, once a request.
  void reply(HttpResponse answer) override {
    held_.release();
    write(std::move(answer));
  }

  /// Of a stream; any thread may call them.
  bool send(std::string_view bytes) {
    const std::lock_guard lock(stream_mutex_);
    if (stream_is_closing_) return false;
    stream_is_closing_ = stream_waiting_.size() + bytes.size() > kMostStreamBytes;
    if (stream_is_closing_) {
      end();
    } else {
      stream_waiting_ += bytes;
    }
    wake_stream();
    return !stream_is_closing_;
  }
  void end_stream() {
    const std::lock_guard lock(stream_mutex_);
    stream_is_closing_ = true;
    wake_stream();
  }

  /// Any thread that holds the mutex of the shared state may call these.
  void end_if_idle() {
    State idle = State::kIdle;
    if (state_.compare_exchange_strong(idle, State::kEnded)) end();
  }
  void end_if_late(Clock::time_point now) {
    if (now.time_since_epoch().count() >= deadline_.load()) end();
  }
  // What is under way fails from now on; the descriptor stays, so no other thread's is hit.
  void end() { ::shutdown(socket_.native_handle(), SHUT_RDWR); }

 private:
  enum class State { kBusy, kIdle, kEnded };
  using Step = void (Session::*)(error_code, std::size_t);

  void expire_after(std::chrono::milliseconds time) {
    deadline_ = (Clock::now() + time).time_since_epoch().count();
  }
  void expire_never() { deadline_ = Clock::time_point::max().time_since_epoch().count(); }

  // One type for all that follows an operation: each more would instantiate all of Asio's.
  auto then(Step step) {
    return [self = shared_from_this(), step](error_code error, std::size_t size) {
      ((*self).*step)(error, size);
    };
  }

  void read_some(std::size_t size, Step step) {
    const auto buffer = buffer_.prepare(size);
    if (tls_) return tls_->async_read_some(buffer, then(step));
    socket_.async_read_some(buffer, then(step));
  }

  void write_all(std::string header, std::string body, Step step) {
    header_ = std::move(header);
    body_ = std::move(body);
    if (body_.size() <= kJoinedAnswerBytes) {
      header_ += body_;
      body_.clear();
    }
    written_ = 0;
    after_write_ = step;
    write_more(error_code(), 0);
  }

  // At once as far as the client takes it: what is written needs nobody to be told.
  void write_more(error_code error, std::size_t size) {
    written_ += size;
    while (!error && written_ < header_.size() + body_.size()) {
      const std::size_t of_header = std::min(written_, header_.size());
      const std::size_t of_body = written_ - of_header;
      const std::array<asio::const_buffer, 2> left{
          asio::const_buffer(header_.data() + of_header, header_.size() - of_header),
          asio::const_buffer(body_.data() + of_body, body_.size() - of_body)};
      if (tls_) return tls_->async_write_some(left, then(&Session::write_more));
      written_ +=
          body_.empty() ? socket_.write_some(left.front(), error) : socket_.write_some(left, error);
      if (error == asio::error::would_block || error == asio::error::try_again) {
        return socket_.async_write_some(left, then(&Session::write_more));
      }
    }
    ((*this).*after_write_)(error, written_);
  }

  void read_request() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_->options.max_header_bytes));
    parser_->body_limit(shared_->options.max_body_bytes);
    header_seen_ = false;
    if (buffer_.size() > 0) {  // A byte that is there already starts the next request.
      if (shared_->draining) return close();
      return begin_request();
    }
    if (buffer_.capacity() > kMostIdleBytes) buffer_.shrink_to_fit();
    expire_after(shared_->options.idle_timeout);
    // In this order: whoever drains ends the idle ones after having said so.
    state_ = State::kIdle;
    if (shared_->draining) return close();
    read_some(kFirstReadBytes, &Session::on_first_bytes);
  }

  void on_first_bytes(error_code error, std::size_t size) {
    if (error || state_.exchange(State::kBusy) == State::kEnded) return close();
    buffer_.commit(size);
    begin_request();
  }

  void begin_request() {
    expire_after(shared_->options.header_timeout);
    parse();
  }

  void read_more() {
    const std::size_t room = buffer_.max_size() - buffer_.size();
    if (room == 0) return refuse(400, ErrorCode::kInvalidArgument, "a line is too long");
    std::size_t wish = kFirstReadBytes;
    if (header_seen_) {
      wish = std::min<std::uint64_t>(parser_->content_length_remaining().value_or(kMostReadBytes),
                                     kMostReadBytes);
    }
    read_some(std::min(room, std::max(wish, kFirstReadBytes)), &Session::on_more);
  }

  void on_more(error_code error, std::size_t size) {
    if (error) return close();
    buffer_.commit(size);
    parse();
  }

  // Takes from the buffer what is there of the request.
  void parse() {
    while (true) {
      error_code error;
      buffer_.consume(parser_->put(buffer_.data(), error));
      if (error == http::error::need_more) return read_more();
      if (error) return on_wrong_request(error);
      if (!header_seen_ && parser_->is_header_done()) {
        header_seen_ = true;
        parser_->eager(true);
        if (!takes_header()) return;
      }
      if (!held_.grow_to(parser_->get().body().capacity())) return refuse_for_lack_of_memory();
      if (parser_->is_done()) return answer();
      if (buffer_.size() == 0) return read_more();
    }
  }

  // False when the request is refused, or the client waits for a word before it sends the body.
  bool takes_header() {
    const auto& message = parser_->get();
    if (message.target().size() > kMostTargetBytes) {
      refuse(414, ErrorCode::kInvalidArgument, "the path of the request is too long");
      return false;
    }
    if (const char* const wrong = wrong_host(message)) {
      refuse(400, ErrorCode::kInvalidArgument, wrong);
      return false;
    }
    const auto length = parser_->content_length();
    if (length && *length > shared_->options.max_body_bytes) {
      refuse_body();
      return false;
    }
    expire_after(shared_->options.body_timeout);
    if (!waits_for_continue()) return true;
    write_all("HTTP/1.1 100 Continue\r\n\r\n", "", &Session::on_continued);
    return false;
  }

  // Clients of HTTP/1.0 know no interim answer, and one whose body is on its way waits for none.
  bool waits_for_continue() const {
    const auto& message = parser_->get();
    return message.version() >= 11 && !parser_->is_done() && buffer_.size() == 0 &&
           beast::iequals(message[http::field::expect], "100-continue");
  }

  void on_continued(error_code error, std::size_t) {
    if (error) return close();
    read_more();
  }

  void on_wrong_request(error_code error) {
    if (error == http::error::header_limit) {
      return refuse(431, ErrorCode::kInvalidArgument, "the header is too large");
    }
    if (error == http::error::body_limit) return refuse_body();
    refuse(400, ErrorCode::kInvalidArgument, "this is no HTTP request");
  }

  void refuse_body() {
    refuse(413, ErrorCode::kInvalidArgument,
           fmt::format("the body is larger than the {} bytes that are allowed; "
                       "--rest-api-max-body-bytes raises the limit",
                       shared_->options.max_body_bytes));
  }

  void refuse_for_lack_of_memory() {
    refuse(429, ErrorCode::kResourceExhausted,
           fmt::format("the requests that are being received take the {} bytes that they may; try "
                       "again later",
                       shared_->options.body_budget->limit()));
  }

  // Answers without having read the whole request, so the connection cannot go on.
  void refuse(int status, ErrorCode code, const std::string& text) {
    keep_alive_ = false;
    is_head_ = false;
    version_ = 11;
    unread_ = true;
    parser_.reset();
    held_.release();
    HttpResponse answer = error_answer_of(code, text);
    answer.status = status;
    write(std::move(answer));
  }

  HttpRequest take_request() {
    auto message = parser_->release();
    keep_alive_ = message.keep_alive();
    is_head_ = message.method() == http::verb::head;
    version_ = message.version();
    HttpRequest request;
    request.method = is_head_ ? "GET" : std::string(message.method_string());
    request.target = std::string(message.target());
    request.headers.reserve(kUsualFields);
    for (const auto& field : message)
      request.headers.emplace_back(field.name_string(), field.value());
    request.body = std::move(message.body());
    request.is_from_this_host = from_this_host_;
    request.received = Clock::now();
    if (shared_->options.log_requests) {
      logged_ =
          fmt::format("{} {}", std::string(message.method_string()), request.target.substr(0, 200));
    }
    received_ = request.received;
    return request;
  }

  void answer() {
    HttpRequest taken = take_request();
    // The time of the model is not the client's to keep.
    expire_never();
    if (shared_->start && shared_->start(taken, shared_from_this())) return;
    auto request = std::make_shared<HttpRequest>(std::move(taken));
    FairQueue::Job act = [self = shared_from_this(), request] {
      HttpResponse answer = self->shared_->handle(std::move(*request));
      *request = {};
      self->reply(std::move(answer));
    };
    const auto queue = shared_->queue_of(*request);
    if (!queue) {
      shared_->workers->run(std::move(act));
      return;
    }
    switch (shared_->jobs->offer(*queue, act)) {
      case FairQueue::Place::kRuns:
        shared_->workers->run([shared = shared_, queue = *queue, act = std::move(act)] {
          shared->jobs->run(queue, act);
        });
        return;
      case FairQueue::Place::kWaits:
        return;
      case FairQueue::Place::kNone:
        break;
    }
    reply(error_answer_of(ErrorCode::kResourceExhausted,
                          "too many requests wait to be answered; try again later"));
  }

  void write(HttpResponse answer) {
    if (shared_->draining || answer.stream) keep_alive_ = false;
    std::string header = std::move(header_);
    header.clear();  // It may hold an interim answer, which was sent.
    header.reserve(kUsualHeaderBytes +
                   (answer.body.size() <= kJoinedAnswerBytes ? answer.body.size() : 0));
    const auto reason =
        http::obsolete_reason(http::int_to_status(static_cast<unsigned>(answer.status)));
    fmt::format_to(std::back_inserter(header), "HTTP/1.{} {} ", version_ % 10, answer.status);
    header.append(reason.data(), reason.size()).append("\r\n");
    const auto add = [&](std::string_view name, std::string_view value) {
      header.append(name).append(": ").append(value).append("\r\n");
    };
    if (!answer.content_type.empty()) add("Content-Type", answer.content_type);
    for (const auto& [name, value] : answer.headers) add(name, value);
    if (keep_alive_ && version_ < 11) add("Connection", "keep-alive");
    if (!keep_alive_ && version_ >= 11) add("Connection", "close");
    // Also where there is nothing: a client would wait for it.
    if (!answer.stream) add("Content-Length", fmt::format_int(answer.body.size()).c_str());
    header += "\r\n";
    log(answer);
    expire_after(shared_->options.write_timeout);
    if (is_head_) answer.body.clear();
    if (answer.stream && !is_head_) return begin_stream(std::move(header), std::move(answer));
    write_all(std::move(header), std::move(answer.body), &Session::on_written);
  }

  // The end of the connection is the end of the body.
  void begin_stream(std::string header, HttpResponse answer) {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->streaming.insert(shared_from_this());
    }
    stream_is_writing_ = true;
    answer.stream(std::make_shared<SessionStream>(shared_from_this()));
    write_all(std::move(header), std::move(answer.body), &Session::on_stream_written);
  }

  // Under the mutex of the stream.
  void wake_stream() {
    if (std::exchange(stream_is_writing_, true)) return;
    asio::post(socket_.get_executor(),
               [self = shared_from_this()] { self->send_stream(error_code()); });
  }

  // Not further down the same stack, which would grow as long as there is more to send.
  void on_stream_written(error_code error, std::size_t) {
    asio::post(socket_.get_executor(),
               [self = shared_from_this(), error] { self->send_stream(error); });
  }

  void send_stream(error_code error) {
    std::string next;
    {
      const std::lock_guard lock(stream_mutex_);
      if (error || (stream_waiting_.empty() && stream_is_closing_)) {
        stream_is_closing_ = true;
      } else if (stream_waiting_.empty()) {
        stream_is_writing_ = false;
        return expire_never();
      } else {
        next = std::exchange(stream_waiting_, {});
      }
    }
    if (!next.empty()) {
      expire_after(shared_->options.write_timeout);
      return write_all({}, std::move(next), &Session::on_stream_written);
    }
    close();
    const std::lock_guard lock(shared_->mutex);
    shared_->streaming.erase(shared_from_this());
  }

  void on_written(error_code error, std::size_t) {
    // What is small is used again.
    header_.clear();
    if (header_.capacity() > kMostKeptHeaderBytes) header_ = {};
    body_ = {};
    if (error || !keep_alive_) return close();
    if (buffer_.size() == 0) return read_request();
    // The next request is here: not further down the same stack, which would grow with each.
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->read_request(); });
  }

  void log(const HttpResponse& answer) {
    if (!shared_->options.log_requests || logged_.empty()) return;
    const std::chrono::duration<double, std::milli> took = Clock::now() - received_;
    log::info("request {} status={} bytes={} ms={:.3f} peer={}", logged_, answer.status,
              answer.body.size(), took.count(), peer_);
    logged_.clear();
  }

  void close() {
    parser_.reset();
    held_.release();
    error_code ignored;
    // Lets the client read what was written before it sees the end.
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    if (!std::exchange(unread_, false)) return;
    expire_after(kLingerTime);
    left_to_linger_ = kMostLingerBytes;
    on_lingered(error_code(), 0);
  }

  // Closing with bytes unread would reset the connection, and the client would lose the answer.
  void on_lingered(error_code error, std::size_t size) {
    if (error || size >= left_to_linger_) return;
    left_to_linger_ -= size;
    buffer_.clear();
    socket_.async_read_some(buffer_.prepare(kMostReadBytes), then(&Session::on_lingered));
  }

  std::shared_ptr<Shared> shared_;
  // Before the socket: it goes after it.
  LoopUse use_;
  std::shared_ptr<asio::ssl::context> tls_context_;
  Socket socket_;
  std::unique_ptr<TlsStream> tls_{};
  std::string peer_{};
  bool from_this_host_ = false;
  // When what is under way takes too long.
  std::atomic<Clock::rep> deadline_{Clock::time_point::max().time_since_epoch().count()};
  std::atomic<State> state_{State::kBusy};
  beast::flat_buffer buffer_{};
  std::optional<http::request_parser<GrowingBody>> parser_{};
  bool header_seen_ = false;
  ByteBudget::Hold held_;
  std::string header_{};
  std::string body_{};
  std::size_t written_ = 0;
  Step after_write_ = nullptr;
  std::size_t left_to_linger_ = 0;
  bool unread_ = false;
  bool keep_alive_ = false;
  bool is_head_ = false;
  unsigned version_ = 11;
  std::string logged_{};
  Clock::time_point received_{};
  // Of an answer that goes on.
  std::mutex stream_mutex_{};
  std::string stream_waiting_{};
  bool stream_is_writing_ = false;
  bool stream_is_closing_ = false;
};

bool SessionStream::send(std::string_view bytes) {
  const auto session = session_.lock();
  return session && session->send(bytes);
}

void SessionStream::close() {
  if (const auto session = session_.lock()) session->end_stream();
}

std::shared_ptr<asio::ssl::context> asio_context(const TlsOptions& options) {
  return std::make_shared<asio::ssl::context>(tls_context(options).release());
}

std::size_t or_default(std::size_t given, std::size_t value, std::size_t least) {
  return given > 0 ? given : std::max(value, least);
}

void bind_at(const tcp::endpoint& endpoint, Acceptor& acceptor, error_code& error) {
  acceptor.close(error);
  acceptor.open(endpoint.protocol(), error);
  if (error) return;
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (endpoint.address().is_v6() && endpoint.address().is_unspecified()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) acceptor.bind(endpoint, error);
}

[[noreturn]] void throw_no_port(const std::string& address, std::uint16_t port,
                                const error_code& error) {
  throw Unavailable("cannot listen on port {}{}{}: {}", port, address.empty() ? "" : " of ",
                    address, error.message());
}

void bind_to(const std::string& address, std::uint16_t port, Acceptor& acceptor) {
  error_code error;
  if (address.empty()) {
    bind_at({asio::ip::address_v6::any(), port}, acceptor, error);
    // A host without IPv6.
    if (error && error != asio::error::address_in_use) {
      bind_at({asio::ip::address_v4::any(), port}, acceptor, error);
    }
  } else {
    const auto ip = asio::ip::make_address(address, error);
    if (error) throw InvalidArgument("\"{}\" is no IP address", address);
    bind_at({ip, port}, acceptor, error);
  }
  if (error) throw_no_port(address, port, error);
}

}  // namespace

void check_port(const std::string& address, std::uint16_t port) {
  asio::io_context io;
  Acceptor acceptor(io);
  bind_to(address, port, acceptor);
}

struct HttpServer::Impl {
  std::shared_ptr<EventLoop> loop;
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  // Guards what accepts and watches, and the certificates for new connections.
  std::mutex mutex{};
  bool is_closed = false;
  std::shared_ptr<asio::ssl::context> tls{};
  Acceptor acceptor{loop->io()};
  asio::steady_timer pause{loop->io()};
  asio::steady_timer watch{loop->io()};
  std::uint16_t port = 0;

  // For what the loop calls: it uses this up to its end.
  std::shared_ptr<LoopUse> use() const { return std::make_shared<LoopUse>(shared); }

  void listen() {
    const HttpServerOptions& options = shared->options;
    bind_to(options.address, options.port, acceptor);
    error_code error;
    acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) throw_no_port(options.address, options.port, error);
    port = acceptor.local_endpoint().port();
  }

  // Under the mutex.
  void accept() {
    acceptor.async_accept(loop->io(), [this, used = use()](error_code error, Socket socket) {
      const std::lock_guard lock(mutex);
      if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
      if (error) return accept_later();
      begin(std::move(socket));
      accept();
    });
  }

  // Out of descriptors, most likely: those who are here go first.
  void accept_later() {
    pause.expires_after(kAcceptPause);
    pause.async_wait([this, used = use()](error_code stopped) {
      const std::lock_guard lock(mutex);
      if (!stopped && acceptor.is_open()) accept();
    });
  }

  void begin(Socket socket) const {
    const std::size_t most = shared->options.max_connections;
    const std::size_t now = shared->count();
    if (now >= most + kToldConnections) return;
    const auto session = std::make_shared<Session>(std::move(socket), tls, shared);
    if (now >= most) return session->turn_away();
    session->start();
  }

  // One look at all connections now and then: a timer for each would cost every request. Under the
  // mutex.
  void watch_deadlines() {
    const HttpServerOptions& options = shared->options;
    const auto shortest = std::min({options.header_timeout, options.body_timeout,
                                    options.write_timeout, options.idle_timeout});
    watch.expires_after(
        std::clamp(shortest / 4, std::chrono::milliseconds(5), std::chrono::milliseconds(500)));
    watch.async_wait([this, used = use()](error_code stopped) {
      if (stopped) return;
      {
        const auto now = Clock::now();
        const std::lock_guard lock(shared->mutex);
        for (Session* session : shared->sessions) session->end_if_late(now);
      }
      const std::lock_guard lock(mutex);
      if (!is_closed) watch_deadlines();
    });
  }

  // Nobody comes from now on.
  void close() {
    const std::lock_guard lock(mutex);
    is_closed = true;
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    watch.cancel();
  }
};

HttpServer::HttpServer(HttpServerOptions options, Handle handle, QueueOf queue_of, Start start)
    : impl_(
          new Impl{options.loop ? options.loop : std::make_shared<EventLoop>(options.io_threads)}) {
  if (options.tls.enabled()) impl_->tls = asio_context(options.tls);
  if (!options.body_budget) {
    options.body_budget = std::make_shared<ByteBudget>(HttpServerOptions::kTotalBodyBytes);
  }
  Shared& shared = *impl_->shared;
  shared.handle = std::move(handle);
  shared.queue_of = std::move(queue_of);
  shared.start = std::move(start);
  options.loop
      .reset();  // Sessions share the options, and may be the last: the loop is not theirs to end.
  shared.options = std::move(options);
  impl_->listen();
  const std::size_t workers =
      or_default(shared.options.workers, 4 * ThreadPool::available_processors(), 32);
  shared.jobs.emplace(
      FairQueue::Options{.running = workers, .waiting = shared.options.max_waiting});
  // As many wait as there are connections, at most.
  shared.workers.emplace(BlockingPool::Options{.threads = workers + impl_->loop->threads(),
                                               .waiting = std::numeric_limits<std::size_t>::max()});
  const std::lock_guard lock(impl_->mutex);
  impl_->watch_deadlines();
  impl_->accept();
}

HttpServer::~HttpServer() {
  Shared& shared = *impl_->shared;
  shared.draining = true;
  impl_->close();
  shared.jobs->close();
  {
    std::unique_lock lock(shared.mutex);
    const auto unused = [&] { return shared.users == 0; };
    // Again, since one that was just accepted may have begun behind the others' end.
    do {
      for (Session* session : shared.sessions) session->end();
      auto streaming = std::exchange(shared.streaming, {});
      lock.unlock();  // Each of them leaves.
      streaming.clear();
      lock.lock();
    } while (!shared.changed.wait_for(lock, kEndAgain, unused));
  }
  shared.workers.reset();
}

std::uint16_t HttpServer::port() const { return impl_->port; }
std::size_t HttpServer::connections() const { return impl_->shared->count(); }

void HttpServer::set_certificates(const TlsOptions& options) {
  auto context = asio_context(options);
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->tls) throw FailedPrecondition("the server was started without TLS");
  impl_->tls = std::move(context);
}

void HttpServer::begin_drain() {
  Shared& shared = *impl_->shared;
  shared.draining = true;
  {
    const std::lock_guard lock(impl_->mutex);
    error_code ignored;
    impl_->acceptor.close(ignored);
  }
  const std::lock_guard lock(shared.mutex);
  for (Session* session : shared.sessions) session->end_if_idle();
}

bool HttpServer::drain(const Deadline& deadline) {
  begin_drain();
  Shared& shared = *impl_->shared;
  std::unique_lock lock(shared.mutex);
  const auto empty = [&] { return shared.sessions.empty(); };
  if (!deadline.is_never()) return shared.changed.wait_until(lock, deadline.time(), empty);
  shared.changed.wait(lock, empty);
  return true;
}

}  // namespace muster::serving
