#include "muster/serving/grpc/grpc_transport.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/serving/http/http_message.h"
#include "muster/serving/listener/blocking_pool.h"
#include "muster/serving/listener/byte_budget.h"
#include "muster/serving/listener/this_host.h"
#include "muster/serving/listener/tls_channel.h"

namespace muster::serving {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Executor = asio::io_context::executor_type;
using Descriptor = asio::posix::basic_stream_descriptor<Executor>;
using Clock = std::chrono::steady_clock;
using Fields = Http2Session::Fields;
using std::chrono::milliseconds;

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kWriteBytes = 64 << 10;
// What a connection without a call may keep.
constexpr std::size_t kMostIdleBytes = 8 << 10;
// What a stream costs beside its messages and its header.
constexpr std::size_t kStreamBytes = 4 << 10;
// Answers of a stream that may wait for its client before its next message is answered.
constexpr std::size_t kMostWaitingBytes = 1 << 20;
constexpr int kAcceptsAtOnce = 64;
constexpr milliseconds kAcceptPause{100};
constexpr milliseconds kWatchInterval{250};
// How long a client may take to say that it has seen a GOAWAY.
constexpr milliseconds kGoawayTime{1'000};

class Connection;
class Call;

/// What all connections of a server share.
struct Shared {
  GrpcTransportOptions options{};
  GrpcMethods methods{};
  std::shared_ptr<ByteBudget> budget{};
  std::atomic<bool> draining{false};
  EventLoop* loop = nullptr;
  BlockingPool* threads = nullptr;

  std::mutex mutex{};
  std::condition_variable changed{};
  // Those that are open. Their own mutex is taken first.
  std::set<Connection*> connections{};
  // Guarded by the mutex, as is all that listens.
  std::shared_ptr<ssl_ctx_st> tls{};
  std::vector<std::unique_ptr<Descriptor>> listeners{};
  std::optional<asio::steady_timer> watch{};
  std::optional<asio::steady_timer> pause{};
  bool closed = false;

  void dispatch(const std::vector<std::shared_ptr<Call>>& calls);
  std::vector<std::shared_ptr<Connection>> all();
};

const Fields& answer_header() {
  static const Fields kHeader{{":status", "200"}, {"content-type", "application/grpc"}};
  return kHeader;
}

void add_status(const GrpcStatus& status, Fields& fields) {
  fields.emplace_back("grpc-status", std::to_string(static_cast<int>(status.code)));
  if (!status.message.empty()) {
    fields.emplace_back("grpc-message", percent_encoded(status.message));
  }
  if (status.code == ErrorCode::kResourceExhausted) {
    fields.emplace_back("grpc-retry-pushback-ms", "1000");
  }
}

/// One call. What begins with on_ is called under the mutex of its connection.
class Call final : public GrpcCall, public Http2Stream, public std::enable_shared_from_this<Call> {
 public:
  explicit Call(std::shared_ptr<Connection> connection);

  const GrpcContext& context() const override { return context_; }
  std::string_view request() const override { return message_; }
  bool is_cancelled() const override { return cancelled_.load(); }
  void on_cancel(std::function<void()> act) override;
  void send(std::string message) override;
  void answer(std::string message) override;
  void finish(GrpcStatus status) override;

  /// Whether the thread that reads may run() it.
  bool is_short() const {
    if (method_->work != GrpcWork::kBySize) return method_->work == GrpcWork::kShort;
    return !is_compressed_ && body_.size() <= kMostBytesInLoop;
  }
  /// In the thread that answers.
  void run();

  void on_field(std::string_view name, std::string_view value) override;
  void on_header_end() override;
  void on_data(std::string_view bytes) override;
  void on_end() override;
  void on_sent() override;
  void on_closed() override;
  /// Of a server that stops: whether the stream waits for its client.
  void on_drain();
  /// Whether it is too long that a message has stopped in the middle.
  bool is_stalled(Clock::time_point now, milliseconds most) const {
    const bool waits = method_ && method_->converse && body_.empty();
    return !is_request_ended() && !finished_ && !waits && now - last_byte_ > most;
  }

 private:
  void take_messages();
  void take_message(GrpcPrefix prefix, std::string_view bytes);
  void finish_here(const GrpcStatus& status);
  void refuse(int http_status);
  void converse();
  void hand_over(const GrpcReply& reply);
  bool send_reply(std::string answer, const std::exception_ptr& failure);
  std::string plain(std::string_view bytes, ByteBudget::Hold* hold) const;

  struct Message {
    std::string bytes{};
    bool is_compressed = false;
  };

  // A connection holds its calls as long as they are open, so that both go when these close.
  const std::shared_ptr<Connection> connection_;
  GrpcContext context_{};
  const GrpcMethod* method_ = nullptr;
  ByteBudget::Hold held_;
  // Of the header.
  std::string path_{};
  std::size_t header_bytes_ = 0;
  bool is_post_ = false;
  bool is_grpc_ = false;
  GrpcEncoding encoding_ = GrpcEncoding::kIdentity;
  Clock::time_point last_byte_ = Clock::now();
  // What has come of messages that are not whole.
  std::string body_{};
  std::string_view message_{};
  bool has_message_ = false;
  bool is_compressed_ = false;
  std::string inflated_{};
  std::atomic<bool> finished_{false};
  std::atomic<bool> cancelled_{false};
  std::function<void()> on_cancel_{};
  // Of a stream.
  std::deque<Message> pending_{};
  bool is_busy_ = false;
  std::size_t unconsumed_ = 0;
};

/// One connection. Its mutex guards the session and all that belongs to it; bytes are sent outside
/// of it by one thread at a time, which also sends what others have added meanwhile.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Without TLS when there is no context. Owns the descriptor.
  Connection(int descriptor, std::shared_ptr<ssl_ctx_st> tls, bool is_from_this_host,
             std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)),
        descriptor_(shared_->loop->io().get_executor(), descriptor),
        is_from_this_host_(is_from_this_host) {
    if (tls) tls_.emplace(std::move(tls));
    const std::lock_guard lock(shared_->mutex);
    shared_->connections.insert(this);
  }
  ~Connection() {
    close_now();
    session_.reset();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start() { wait_to_read(); }

  const Shared& shared() const { return *shared_; }
  const std::shared_ptr<ByteBudget>& budget() const { return shared_->budget; }
  bool is_from_this_host() const { return is_from_this_host_; }

  /// Any thread: does something with the session, and has sent what comes of it, in a thread of the
  /// loop when that has done what it does now: the answers of a batch go out together.
  template <typename Act>
  void with_session(const Act& act) {
    std::unique_lock lock(mutex_);
    if (closed_ || !session_) return leave(lock);
    act(*session_);
    const bool is_first = !is_sending_ && !std::exchange(is_flush_deferred_, true);
    leave(lock);
    if (is_first) shared_->loop->defer([self = shared_from_this()] { self->flush_deferred(); });
  }

  // Under the mutex, from within calls.
  Http2Session& session() { return *session_; }
  void add_ready(std::shared_ptr<Call> call) { ready_.push_back(std::move(call)); }
  void add_cancelled(std::function<void()> act) { cancelled_.push_back(std::move(act)); }
  std::mutex& mutex() { return mutex_; }

  /// Any thread; not under the mutex.
  void drain() {
    std::unique_lock lock(mutex_);
    if (!closed_) begin_goaway(lock);
    leave(lock);
  }
  void close() {
    std::unique_lock lock(mutex_);
    close_now();
    leave(lock);
  }
  /// Now and then: ends what takes too long.
  void look(Clock::time_point now) {
    std::unique_lock lock(mutex_);
    if (!closed_) check_times(now, lock);
    leave(lock);
  }

 private:
  void wait_to_read() {
    descriptor_.async_wait(Descriptor::wait_read, [self = shared_from_this()](error_code error) {
      self->on_readable(error);
    });
  }

  void on_readable(error_code error) {
    thread_local std::vector<char> buffer(kReadBytes);
    bool goes_on = false;
    std::unique_lock lock(mutex_);
    if (error) close_now();
    if (!closed_) {
      const ssize_t count =
          ::recv(descriptor_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (count > 0) {
        goes_on = receive({buffer.data(), static_cast<std::size_t>(count)}, lock);
      } else if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        goes_on = true;
      } else {
        close_now();
      }
    }
    if (goes_on) wait_to_read();
    leave(lock);
  }

  // Under the mutex. False when the connection is over.
  bool receive(std::string_view bytes, std::unique_lock<std::mutex>& lock) {
    if (!session_) make_session();
    bool goes_on = true;
    if (tls_) {
      thread_local std::string plain;
      plain.clear();
      goes_on = tls_->receive(bytes, plain);
      if (!plain.empty()) goes_on = session_->receive(plain) && goes_on;
    } else {
      goes_on = session_->receive(bytes);
    }
    if (session_->streams() > 0) last_call_ = Clock::now();
    ends_after_flush_ = ends_after_flush_ || !goes_on;
    flush(lock);
    return !closed_;
  }

  void make_session() {
    session_.emplace(shared_->options.http2,
                     [this] { return std::make_shared<Call>(shared_from_this()); });
  }

  void flush_deferred() {
    std::unique_lock lock(mutex_);
    is_flush_deferred_ = false;
    flush(lock);
    leave(lock);
  }

  // Under the mutex; gives it up while bytes are sent.
  void flush(std::unique_lock<std::mutex>& lock) {
    if (closed_ || std::exchange(is_sending_, true)) return;
    while (fill_output()) {
      const int descriptor = descriptor_.native_handle();
      lock.unlock();
      const ssize_t count = ::send(descriptor, output_.data() + output_sent_,
                                   output_.size() - output_sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
      const int error = errno;
      lock.lock();
      if (closed_) return;
      if (count < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return wait_to_write();
      if (count < 0 && error != EINTR) return close_now();
      if (count > 0) {
        output_sent_ += static_cast<std::size_t>(count);
        last_progress_ = Clock::now();
      }
    }
    is_sending_ = false;
    if (output_.capacity() > kMostIdleBytes && session_->streams() == 0)
      std::string().swap(output_);
    if (ends_after_flush_ || session_->is_over()) close_now();
  }

  // False when there is nothing to be sent.
  bool fill_output() {
    if (output_sent_ < output_.size()) return true;
    output_.clear();
    output_sent_ = 0;
    if (!tls_) {
      session_->take_output(output_, kWriteBytes);
      return !output_.empty();
    }
    if (tls_->is_open()) {
      thread_local std::string plain;
      plain.clear();
      session_->take_output(plain, kWriteBytes);
      tls_->send(plain);
    }
    tls_->take_output(output_);
    return !output_.empty();
  }

  // is_sending_ stays: whoever is woken goes on.
  void wait_to_write() {
    descriptor_.async_wait(Descriptor::wait_write, [self = shared_from_this()](error_code error) {
      std::unique_lock lock(self->mutex_);
      self->is_sending_ = false;
      if (error) self->close_now();
      self->flush(lock);
      self->leave(lock);
    });
  }

  // Under the mutex. The descriptor stays as long as anybody may use it; what waits for it is
  // woken.
  void close_now() {
    if (std::exchange(closed_, true)) return;
    if (session_) session_->close();
    ::shutdown(descriptor_.native_handle(), SHUT_RDWR);
    const std::lock_guard lock(shared_->mutex);
    shared_->connections.erase(this);
    shared_->changed.notify_all();
  }

  void begin_goaway(std::unique_lock<std::mutex>& lock) {
    if (!session_) return close_now();
    if (session_->goaway_begun()) return;
    goaway_begin_ = Clock::now();
    session_->begin_goaway();
    if (shared_->draining) {
      std::vector<std::shared_ptr<Http2Stream>> streams;
      for (const auto& entry : session_->open()) streams.push_back(entry.second);
      for (const auto& stream : streams) static_cast<Call&>(*stream).on_drain();
    }
    flush(lock);
  }

  void check_times(Clock::time_point now, std::unique_lock<std::mutex>& lock) {
    const GrpcTransportOptions& options = shared_->options;
    if (!session_ || (tls_ && !tls_->is_open())) {
      if (now - begin_ > options.handshake_timeout) close_now();
      return;
    }
    if (session_->sent_bytes() != seen_bytes_ || !session_->has_waiting_data()) {
      seen_bytes_ = session_->sent_bytes();
      if (!is_sending_) last_progress_ = now;
    }
    if (now - last_progress_ > options.stall_timeout) return close_now();
    reset_stalled(now);
    if (session_->streams() > 0) last_call_ = now;
    const bool is_idle = options.max_idle && now - last_call_ > *options.max_idle;
    const bool is_old = options.max_age && now - begin_ > *options.max_age;
    if (is_idle || is_old || shared_->draining) begin_goaway(lock);
    if (closed_) return;
    if (session_->goaway_begun()) {
      if (now - goaway_begin_ > kGoawayTime) session_->finish_goaway();
      if (is_old && options.max_age_grace && now - goaway_begin_ > *options.max_age_grace) {
        return close_now();
      }
    }
    if (options.keepalive_time) keep_alive(now);
    if (!closed_) flush(lock);
  }

  void reset_stalled(Clock::time_point now) {
    std::vector<std::shared_ptr<Http2Stream>> stalled;
    for (const auto& entry : session_->open()) {
      if (static_cast<const Call&>(*entry.second).is_stalled(now, shared_->options.stall_timeout)) {
        stalled.push_back(entry.second);
      }
    }
    for (const auto& stream : stalled) session_->reset(*stream);
  }

  void keep_alive(Clock::time_point now) {
    const GrpcTransportOptions& options = shared_->options;
    if (pinged_ && session_->last_pong() < *pinged_) {
      if (now - *pinged_ > options.keepalive_timeout) close_now();
      return;
    }
    if (now - std::max(session_->last_pong(), begin_) < *options.keepalive_time) return;
    pinged_ = now;
    session_->ping();
  }

  // Gives up the mutex, and does what calls have left to be done without it.
  void leave(std::unique_lock<std::mutex>& lock) {
    if (ready_.empty() && cancelled_.empty()) return lock.unlock();
    const auto ready = std::exchange(ready_, {});
    const auto cancelled = std::exchange(cancelled_, {});
    lock.unlock();
    for (const auto& act : cancelled) act();
    shared_->dispatch(ready);
  }

  std::shared_ptr<Shared> shared_;
  Descriptor descriptor_;
  const bool is_from_this_host_;
  std::mutex mutex_{};
  std::optional<TlsChannel> tls_{};
  std::optional<Http2Session> session_{};
  std::vector<std::shared_ptr<Call>> ready_{};
  std::vector<std::function<void()>> cancelled_{};
  std::string output_{};
  std::size_t output_sent_ = 0;
  bool is_sending_ = false;
  bool is_flush_deferred_ = false;
  bool ends_after_flush_ = false;
  bool closed_ = false;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_call_ = begin_;
  Clock::time_point last_progress_ = begin_;
  Clock::time_point goaway_begin_{};
  std::uint64_t seen_bytes_ = 0;
  std::optional<Clock::time_point> pinged_{};
};

// ------------------------------------------------------------------------------------- calls

Call::Call(std::shared_ptr<Connection> connection)
    : connection_(std::move(connection)), held_(connection_->budget()) {
  context_.is_from_this_host = connection_->is_from_this_host();
}

void Call::on_field(std::string_view name, std::string_view value) {
  header_bytes_ += name.size() + value.size() + 32;
  if (header_bytes_ > connection_->shared().options.http2.max_header_bytes) return;
  if (name == ":path") {
    path_ = value;
  } else if (name == ":method") {
    is_post_ = value == "POST";
  } else if (name == "content-type") {
    is_grpc_ = is_grpc_content_type(value);
  } else if (name == "grpc-timeout") {
    if (const auto timeout = parse_grpc_timeout(value)) {
      context_.deadline = Deadline::after(*timeout);
    }
  } else if (name == "grpc-encoding") {
    encoding_ = parse_grpc_encoding(value);
  } else if (name == "authorization") {
    context_.authorization = value;
  }
}

void Call::on_header_end() {
  const Shared& shared = connection_->shared();
  if (header_bytes_ > shared.options.http2.max_header_bytes) {
    return finish_here({ErrorCode::kResourceExhausted,
                        fmt::format("the header is larger than the {} bytes that are allowed",
                                    shared.options.http2.max_header_bytes)});
  }
  if (!is_grpc_) return refuse(415);
  if (!is_post_) return refuse(405);
  const auto found = shared.methods.find(path_);
  if (found == shared.methods.end()) return finish_here({ErrorCode::kUnimplemented, ""});
  method_ = &found->second;
  if (encoding_ == GrpcEncoding::kUnknown) {
    return finish_here({ErrorCode::kUnimplemented,
                        "messages are compressed in a way that this server does not know"});
  }
  if (!held_.grow_to(kStreamBytes + header_bytes_)) {
    return finish_here(
        {ErrorCode::kResourceExhausted, "there are too many calls; try again later"});
  }
  if (!method_->check) return;
  try {
    method_->check(context_);
  } catch (...) {
    finish_here(status_of(std::current_exception()));
  }
}

void Call::on_data(std::string_view bytes) {
  last_byte_ = Clock::now();
  // What comes behind an early answer is dropped.
  if (finished_) return connection_->session().consume(*this, bytes.size());
  body_ += bytes;
  try {
    if (!held_.grow_to(kStreamBytes + header_bytes_ + body_.capacity())) {
      throw ResourceExhausted(
          "the messages of all calls take the {} bytes that they may; try again later",
          connection_->budget()->limit());
    }
    take_messages();
  } catch (...) {
    finish_here(status_of(std::current_exception()));
    return connection_->session().consume(*this, bytes.size());
  }
  if (pending_.empty()) {
    connection_->session().consume(*this, bytes.size());
  } else {
    unconsumed_ += bytes.size();
  }
}

// Takes what is whole from the body. Throws what is wrong with it.
void Call::take_messages() {
  const std::size_t most = connection_->shared().options.max_message_bytes;
  std::size_t at = 0;
  while (body_.size() - at >= kGrpcPrefixBytes) {
    const std::string_view left = std::string_view(body_).substr(at);
    const GrpcPrefix prefix = read_grpc_prefix(left);
    if (prefix.bytes > most) {
      throw ResourceExhausted("Received message larger than max ({} vs. {})", prefix.bytes, most);
    }
    if (prefix.is_compressed && encoding_ == GrpcEncoding::kIdentity) {
      throw Internal("a message is compressed, and the header does not say how");
    }
    if (left.size() - kGrpcPrefixBytes < prefix.bytes) break;
    if (!method_->converse) {
      if (left.size() - kGrpcPrefixBytes > prefix.bytes) {
        throw Internal("more than one message came for a call that has one");
      }
      has_message_ = true;
      is_compressed_ = prefix.is_compressed;
      return;
    }
    take_message(prefix, left.substr(kGrpcPrefixBytes, prefix.bytes));
    at += kGrpcPrefixBytes + prefix.bytes;
  }
  body_.erase(0, at);
}

void Call::take_message(GrpcPrefix prefix, std::string_view bytes) {
  pending_.push_back({std::string(bytes), prefix.is_compressed});
  if (!std::exchange(is_busy_, true)) connection_->add_ready(shared_from_this());
}

void Call::on_end() {
  if (finished_) return;
  if (method_->converse) {
    if (!body_.empty()) return finish_here({ErrorCode::kInternal, "a message is cut short"});
    if (!is_busy_ && pending_.empty()) finish_here({});
    return;
  }
  if (!has_message_) {
    return finish_here(
        {ErrorCode::kInternal, body_.empty() ? "No payload" : "a message is cut short"});
  }
  connection_->add_ready(shared_from_this());
}

void Call::on_sent() {
  if (finished_ || is_busy_ || pending_.empty()) return;
  is_busy_ = true;
  connection_->add_ready(shared_from_this());
}

void Call::on_closed() {
  cancelled_ = true;
  if (on_cancel_) connection_->add_cancelled(std::exchange(on_cancel_, nullptr));
}

void Call::on_drain() {
  if (finished_ || !method_) return;
  const bool waits = method_->converse && !is_busy_ && pending_.empty() && body_.empty();
  if (!waits && !on_cancel_) return;
  if (on_cancel_) connection_->add_cancelled(std::exchange(on_cancel_, nullptr));
  finish_here({ErrorCode::kUnavailable, "the server is stopping"});
}

std::string Call::plain(std::string_view bytes, ByteBudget::Hold* hold) const {
  return inflated(bytes,
                  {.most_bytes = connection_->shared().options.max_message_bytes, .hold = hold});
}

void Call::run() {
  if (method_->converse) return converse();
  if (is_cancelled()) return finish({ErrorCode::kCancelled, ""});
  try {
    message_ = std::string_view(body_).substr(kGrpcPrefixBytes);
    if (is_compressed_) {
      inflated_ = plain(message_, &held_);
      message_ = inflated_;
    }
    method_->handle(shared_from_this());
  } catch (...) {
    finish(status_of(std::current_exception()));
  }
}

// Answers message after message, until there is none, too much waits to be sent, or an answer is
// still to come: then whoever gives it goes on.
void Call::converse() {
  /// Who goes on behind a message: its answer, or whoever has handed it over, if that is later.
  struct Turn {
    std::atomic<bool> is_one_done{false};
    bool goes_on = false;
  };
  const auto self = shared_from_this();
  bool goes_on = true;
  while (goes_on) {
    const auto turn = std::make_shared<Turn>();
    hand_over([self, turn](std::string answer, const std::exception_ptr& failure) {
      turn->goes_on = self->send_reply(std::move(answer), failure);
      if (turn->is_one_done.exchange(true) && turn->goes_on) self->converse();
    });
    goes_on = turn->is_one_done.exchange(true) && turn->goes_on;
  }
}

// Has the next message of a stream answered.
void Call::hand_over(const GrpcReply& reply) {
  Message message;
  {
    const std::lock_guard lock(connection_->mutex());
    message = std::move(pending_.front());
    pending_.pop_front();
  }
  try {
    if (is_cancelled()) return reply("", nullptr);
    if (message.is_compressed) message.bytes = plain(message.bytes, nullptr);
    method_->converse(context_, message.bytes, reply);
  } catch (...) {
    reply("", std::current_exception());
  }
}

// Whether the next message is to be handed over.
bool Call::send_reply(std::string answer, const std::exception_ptr& failure) {
  bool goes_on = false;
  connection_->with_session([&](Http2Session& session) {
    if (is_closed() || finished_) return;
    if (failure) return finish_here(status_of(failure));
    session.respond(*this, answer_header());
    session.send(*this, grpc_prefix(answer.size()));
    session.send(*this, std::move(answer));
    goes_on = !pending_.empty() && waiting_bytes() < kMostWaitingBytes;
    if (pending_.empty()) {
      held_.release();
      held_.grow_to(kStreamBytes + header_bytes_ + body_.capacity());
      session.consume(*this, std::exchange(unconsumed_, 0));
    }
    if (goes_on) return;
    is_busy_ = false;
    if (pending_.empty() && is_request_ended()) finish_here({});
  });
  return goes_on;
}

// Under the mutex of the connection.
void Call::finish_here(const GrpcStatus& status) {
  if (finished_.exchange(true)) return;
  Http2Session& session = connection_->session();
  if (is_answer_begun()) {
    Fields trailers;
    add_status(status, trailers);
    return session.end(*this, std::move(trailers));
  }
  Fields header = answer_header();
  if (encoding_ == GrpcEncoding::kUnknown) {
    header.emplace_back("grpc-accept-encoding", kGrpcEncodings);
  }
  add_status(status, header);
  session.respond_only(*this, header);
}

// Nobody who speaks gRPC.
void Call::refuse(int http_status) {
  finished_ = true;
  connection_->session().respond_only(
      *this, {{":status", std::to_string(http_status)}, {"content-length", "0"}});
}

void Call::on_cancel(std::function<void()> act) {
  {
    const std::lock_guard lock(connection_->mutex());
    if (!cancelled_ && !finished_) {
      on_cancel_ = std::move(act);
      return;
    }
  }
  act();
}

void Call::send(std::string message) {
  connection_->with_session([&](Http2Session& session) {
    if (finished_ || is_closed()) return;
    session.respond(*this, answer_header());
    session.send(*this, grpc_prefix(message.size()));
    session.send(*this, std::move(message));
  });
}

void Call::answer(std::string message) {
  connection_->with_session([&](Http2Session& session) {
    if (finished_ || is_closed()) return;
    // An answer counts until its client has taken it.
    if (!held_.grow_to(kStreamBytes + header_bytes_ + body_.capacity() + message.size())) {
      return finish_here(
          {ErrorCode::kResourceExhausted,
           "the messages of all calls take the bytes that they may; try again later"});
    }
    finished_ = true;
    session.respond(*this, answer_header());
    session.send(*this, grpc_prefix(message.size()));
    session.send(*this, std::move(message));
    static const Fields kTrailers{{"grpc-status", "0"}};
    session.end(*this, kTrailers);
  });
}

void Call::finish(GrpcStatus status) {
  connection_->with_session([&](Http2Session&) { finish_here(status); });
}

// ------------------------------------------------------------------------------------- threads

void Shared::dispatch(const std::vector<std::shared_ptr<Call>>& calls) {
  for (const auto& call : calls) {
    if (call->is_short()) {
      call->run();
    } else if (!threads->run([call] { call->run(); })) {
      call->finish(
          {ErrorCode::kResourceExhausted, "too many calls wait to be answered; try again later"});
    }
  }
}

std::vector<std::shared_ptr<Connection>> Shared::all() {
  std::vector<std::shared_ptr<Connection>> out;
  const std::lock_guard lock(mutex);
  for (Connection* const one : connections) {
    if (auto held = one->weak_from_this().lock()) out.push_back(std::move(held));
  }
  return out;
}

// ------------------------------------------------------------------------------------- listening

/// A descriptor that is closed at its end.
class Socket {
 public:
  explicit Socket(int number) : number_(number) {}
  ~Socket() {
    if (number_ >= 0) ::close(number_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// The descriptor, or a negative error.
int listen_at(const sockaddr* address, socklen_t size) {
  Socket socket(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.number() < 0) return -errno;
  const int on = 1;
  const int off = 0;
  if (address->sa_family != AF_UNIX) {
    ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (address->sa_family == AF_INET6) {
    ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.number(), address, size) != 0 || ::listen(socket.number(), SOMAXCONN) != 0) {
    return -errno;
  }
  return socket.release();
}

int listen_at_v6(const in6_addr& address, std::uint16_t port) {
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_addr = address;
  out.sin6_port = htons(port);
  return listen_at(reinterpret_cast<const sockaddr*>(&out), sizeof out);
}

int listen_at_v4(const in_addr& address, std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr = address;
  out.sin_port = htons(port);
  return listen_at(reinterpret_cast<const sockaddr*>(&out), sizeof out);
}

int listen_on_port(const std::string& address, std::uint16_t port) {
  in6_addr v6{};
  in_addr v4{};
  int out = 0;
  if (address.empty()) {
    out = listen_at_v6(in6addr_any, port);
    // A host without IPv6.
    if (out < 0 && out != -EADDRINUSE) out = listen_at_v4(in_addr{}, port);
  } else if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    out = listen_at_v4(v4, port);
  } else if (::inet_pton(AF_INET6, address.c_str(), &v6) == 1) {
    out = listen_at_v6(v6, port);
  } else {
    throw InvalidArgument("\"{}\" is no IP address", address);
  }
  if (out < 0) {
    throw Unavailable("cannot listen on {}:{} for gRPC: {}", address, port, std::strerror(-out));
  }
  return out;
}

int listen_on_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw InvalidArgument("the path of a Unix socket has {} bytes at most: {}",
                          sizeof address.sun_path - 1, path);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // One that an earlier server has left.
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) ::unlink(path.c_str());
  const int out = listen_at(reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (out < 0) throw Unavailable("cannot listen on {} for gRPC: {}", path, std::strerror(-out));
  return out;
}

std::uint16_t port_of(int descriptor) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &size);
  // Both families have it in the same place.
  sockaddr_in address{};
  std::memcpy(&address, &storage, sizeof address);
  return ntohs(address.sin_port);
}

void accept_some(const std::shared_ptr<Shared>& shared, Descriptor& listener);

// Under the mutex of the shared state.
void wait_to_accept(const std::shared_ptr<Shared>& shared, Descriptor& listener) {
  listener.async_wait(Descriptor::wait_read, [shared, &listener](error_code error) {
    if (!error) accept_some(shared, listener);
  });
}

void set_options(int descriptor, bool is_tcp) {
  if (!is_tcp) return;
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

void accept_some(const std::shared_ptr<Shared>& shared, Descriptor& listener) {
  std::vector<std::shared_ptr<Connection>> begun;
  bool is_exhausted = false;
  std::unique_lock lock(shared->mutex);
  for (int i = 0; i < kAcceptsAtOnce && !shared->closed; ++i) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const int number = ::accept4(listener.native_handle(), reinterpret_cast<sockaddr*>(&peer),
                                 &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (number < 0) {
      is_exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      break;
    }
    if (shared->connections.size() >= shared->options.max_connections) {
      ::close(number);
      continue;
    }
    const bool is_tcp = peer.ss_family != AF_UNIX;
    set_options(number, is_tcp);
    const auto tls = is_tcp ? shared->tls : nullptr;
    const bool is_here = is_this_host(reinterpret_cast<const sockaddr&>(peer));
    lock.unlock();
    begun.push_back(std::make_shared<Connection>(number, tls, is_here, shared));
    begun.back()->start();
    lock.lock();
  }
  if (shared->closed) return;
  if (!is_exhausted) return wait_to_accept(shared, listener);
  // Those who are here go first.
  shared->pause->expires_after(kAcceptPause);
  shared->pause->async_wait([shared, &listener](error_code stopped) {
    const std::lock_guard again(shared->mutex);
    if (!stopped && !shared->closed) wait_to_accept(shared, listener);
  });
}

// One look at all connections now and then: a timer for each would cost every call.
void watch(const std::shared_ptr<Shared>& shared) {
  const std::lock_guard lock(shared->mutex);
  if (shared->closed && shared->connections.empty()) return;
  shared->watch->expires_after(kWatchInterval);
  shared->watch->async_wait([shared](error_code stopped) {
    if (stopped) return;
    const auto now = Clock::now();
    for (const auto& connection : shared->all()) connection->look(now);
    watch(shared);
  });
}

}  // namespace

struct GrpcTransport::Impl {
  std::shared_ptr<EventLoop> loop{};
  std::optional<BlockingPool> threads{};
  std::shared_ptr<std::promise<void>> gone = std::make_shared<std::promise<void>>();
  // Held by all connections and by what waits; whoever lets go of it last says so.
  std::shared_ptr<Shared> shared{new Shared, [said = gone](Shared* old) {
                                   delete old;
                                   said->set_value();
                                 }};
  std::uint16_t port = 0;

  void listen(int descriptor) {
    shared->listeners.push_back(
        std::make_unique<Descriptor>(loop->io().get_executor(), descriptor));
    wait_to_accept(shared, *shared->listeners.back());
  }

  void stop_listening() {
    const std::lock_guard lock(shared->mutex);
    if (std::exchange(shared->closed, true)) return;
    // What waits for them holds the shared state: it goes without being told of more.
    for (const auto& listener : shared->listeners) {
      error_code ignored;
      listener->close(ignored);
    }
    shared->pause->cancel();
    if (!shared->options.socket_path.empty()) ::unlink(shared->options.socket_path.c_str());
  }
};

GrpcTransport::GrpcTransport(std::shared_ptr<EventLoop> loop, GrpcTransportOptions options,
                             GrpcMethods methods)
    : impl_(std::make_unique<Impl>()) {
  Shared& shared = *impl_->shared;
  impl_->loop = std::move(loop);
  shared.loop = impl_->loop.get();
  if (options.tls.enabled()) shared.tls = http2_tls_context(options.tls);
  shared.budget = std::make_shared<ByteBudget>(options.max_total_bytes);
  shared.methods = std::move(methods);
  shared.options = std::move(options);
  shared.watch.emplace(impl_->loop->io());
  shared.pause.emplace(impl_->loop->io());
  impl_->threads.emplace(
      BlockingPool::Options{.threads = shared.options.threads, .waiting = shared.options.threads});
  shared.threads = &*impl_->threads;
  // What may fail comes before anything waits.
  Socket by_port(listen_on_port(shared.options.address, shared.options.port));
  Socket by_path(shared.options.socket_path.empty() ? -1
                                                    : listen_on_path(shared.options.socket_path));
  impl_->port = port_of(by_port.number());
  impl_->listen(by_port.release());
  if (by_path.number() >= 0) impl_->listen(by_path.release());
  watch(impl_->shared);
}

GrpcTransport::~GrpcTransport() {
  drain(Deadline::after(std::chrono::seconds(0)));
  {
    const std::lock_guard lock(impl_->shared->mutex);
    impl_->shared->watch->cancel();
  }
  auto gone = impl_->gone->get_future();
  impl_->shared.reset();
  gone.wait();
}

std::uint16_t GrpcTransport::port() const { return impl_->port; }

std::size_t GrpcTransport::connections() const {
  const std::lock_guard lock(impl_->shared->mutex);
  return impl_->shared->connections.size();
}

void GrpcTransport::set_certificates(const TlsOptions& options) {
  auto context = http2_tls_context(options);
  const std::lock_guard lock(impl_->shared->mutex);
  if (!impl_->shared->tls) throw FailedPrecondition("the server was started without TLS");
  impl_->shared->tls = std::move(context);
}

void GrpcTransport::begin_drain() {
  impl_->shared->draining = true;
  impl_->stop_listening();
  for (const auto& connection : impl_->shared->all()) connection->drain();
}

bool GrpcTransport::drain(const Deadline& deadline) {
  begin_drain();
  Shared& shared = *impl_->shared;
  const auto empty = [&] { return shared.connections.empty(); };
  {
    std::unique_lock lock(shared.mutex);
    if (deadline.is_never()) {
      shared.changed.wait(lock, empty);
      return true;
    }
    if (shared.changed.wait_until(lock, deadline.time(), empty)) return true;
  }
  for (const auto& connection : shared.all()) connection->close();
  return false;
}

}  // namespace muster::serving
