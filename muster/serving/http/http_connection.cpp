#include <fmt/format.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "muster/serving/http/http_connection_internal.h"
#include "muster/serving/http/http_exchange_internal.h"
#include "muster/serving/http/http_request_reader_internal.h"
#include "muster/serving/http/remote_header.h"

namespace muster::serving {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;
// Not tcp::socket: that one finds out at run time what executes its handlers.
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using TlsStream = asio::ssl::stream<Socket&>;

constexpr std::chrono::milliseconds kLingerTime{2000};
constexpr std::size_t kMostLingerBytes = std::size_t{16} << 20;
constexpr std::size_t kMostKeptHeaderBytes = 1 << 10;
// Bytes that may wait for a client that follows a stream.
constexpr std::size_t kMostStreamBytes = std::size_t{4} << 20;

class HttpConnection;

/// A handler's weak reference to a connection whose answer continues.
class ConnectionStream final : public HttpStream {
 public:
  explicit ConnectionStream(const std::shared_ptr<HttpConnection>& connection)
      : connection_(connection) {}
  bool send(std::string_view bytes) override;
  void close() override;

 private:
  std::weak_ptr<HttpConnection> connection_;
};

/// One connection: requests one after the other. One operation is under way at a time, in whichever
/// thread, so nothing in it needs a mutex; what other threads may call besides is said there.
class HttpConnection final : public ClientConnection, public HttpReply {
 public:
  HttpConnection(AcceptedSocket accepted, Socket socket, std::shared_ptr<HttpShared> shared)
      : ClientConnection(std::move(accepted.open)),
        shared_(std::move(shared)),
        socket_(std::move(socket)),
        from_this_host_(accepted.is_from_this_host),
        is_too_many_(accepted.is_too_many),
        reader_(shared_->options) {
    if (accepted.tls) tls_ = std::make_unique<Tls>(std::move(accepted.tls), socket_);
    error_code ignored;
    if (!tls_) socket_.non_blocking(true, ignored);
    if (shared_->options.log_requests) peer_ = address_of(accepted.peer);
  }

  void start() override {
    if (is_too_many_) return turn_away();
    if (!tls_) return read_request();
    expire_after(shared_->options.header_timeout);
    tls_->stream.async_handshake(asio::ssl::stream_base::server, [self = self()](error_code error) {
      if (!error) self->read_request();
    });
  }

  /// Any thread may call it, once a request.
  void reply(HttpResponse answer) override {
    reader_.release_budget();
    write(std::move(answer));
  }

  /// For a stream; any thread may call them.
  bool send(std::string_view bytes) {
    const std::lock_guard lock(stream_.mutex);
    if (stream_.is_closing) return false;
    stream_.is_closing = stream_.waiting.size() + bytes.size() > kMostStreamBytes;
    if (stream_.is_closing) {
      end();
    } else {
      stream_.waiting += bytes;
    }
    wake_stream();
    return !stream_.is_closing;
  }
  void end_stream() {
    const std::lock_guard lock(stream_.mutex);
    stream_.is_closing = true;
    wake_stream();
  }

  /// Any thread may call these.
  void look(Clock::time_point now) override {
    if (now.time_since_epoch().count() >= deadline_.load()) end();
  }
  void drain() override {
    State idle = State::kIdle;
    if (state_.compare_exchange_strong(idle, State::kEnded)) end();
  }
  void close() override {
    end();
    const std::lock_guard lock(stream_.mutex);
    // Nothing may be under way that would notice.
    if (!stream_.is_begun) return;
    stream_.is_closing = true;
    wake_stream();
  }

 private:
  enum class State { kBusy, kIdle, kEnded };
  using Step = void (HttpConnection::*)(error_code, std::size_t);

  /// The server's end of TLS.
  struct Tls {
    Tls(const std::shared_ptr<ssl_ctx_st>& its_context, Socket& socket)
        : context(referenced(its_context.get())), stream(socket, context) {}

    // The caller owns one more reference.
    static SSL_CTX* referenced(SSL_CTX* context) {
      ::SSL_CTX_up_ref(context);
      return context;
    }

    asio::ssl::context context;
    TlsStream stream;
  };

  /// The answer that is being sent.
  struct Output {
    std::string header{};
    std::string body{};
    std::size_t written = 0;
    Step then = nullptr;
  };

  /// An answer that continues. Under its mutex.
  struct Stream {
    std::mutex mutex{};
    std::string waiting{};
    bool is_begun = false;
    bool is_writing = false;
    bool is_closing = false;
  };

  /// Bytes to read and drop before the end, so that the client gets its answer.
  struct Linger {
    std::size_t left = 0;
    bool is_needed = false;
  };

  static std::string address_of(const sockaddr_storage& peer) {
    tcp::endpoint endpoint;
    const std::size_t size =
        peer.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    std::memcpy(endpoint.data(), &peer, size);
    endpoint.resize(size);
    return endpoint.address().to_string();
  }

  std::shared_ptr<HttpConnection> self() {
    return std::static_pointer_cast<HttpConnection>(shared_from_this());
  }

  // Pending operations fail from now on; the descriptor stays, so no other thread's is hit.
  void end() { ::shutdown(socket_.native_handle(), SHUT_RDWR); }

  // In place of reading requests: says that there are too many connections.
  void turn_away() {
    if (tls_) return;
    refuse({503, ErrorCode::kUnavailable,
            fmt::format("there are {} connections already, which is the limit; try again later",
                        shared_->options.max_connections)});
  }

  void expire_after(std::chrono::milliseconds time) {
    deadline_ = (Clock::now() + time).time_since_epoch().count();
  }
  void expire_never() { deadline_ = Clock::time_point::max().time_since_epoch().count(); }

  // One type for all that follows an operation: each more would instantiate all of Asio's.
  auto then(Step step) {
    return
        [self = self(), step](error_code error, std::size_t size) { ((*self).*step)(error, size); };
  }

  void read_some(std::span<char> room, Step step) {
    const asio::mutable_buffer buffer(room.data(), room.size());
    if (tls_) return tls_->stream.async_read_some(buffer, then(step));
    socket_.async_read_some(buffer, then(step));
  }

  void write_all(std::string header, std::string body, Step step) {
    output_.header = std::move(header);
    output_.body = std::move(body);
    if (output_.body.size() <= kJoinedAnswerBytes) {
      output_.header += output_.body;
      output_.body.clear();
    }
    output_.written = 0;
    output_.then = step;
    write_more(error_code(), 0);
  }

  // At once as far as the client takes it: what is written needs no wake-up.
  void write_more(error_code error, std::size_t size) {
    const std::string& header = output_.header;
    const std::string& body = output_.body;
    output_.written += size;
    while (!error && output_.written < header.size() + body.size()) {
      const std::size_t of_header = std::min(output_.written, header.size());
      const std::size_t of_body = output_.written - of_header;
      const std::array<asio::const_buffer, 2> left{
          asio::const_buffer(header.data() + of_header, header.size() - of_header),
          asio::const_buffer(body.data() + of_body, body.size() - of_body)};
      if (tls_) return tls_->stream.async_write_some(left, then(&HttpConnection::write_more));
      output_.written +=
          body.empty() ? socket_.write_some(left.front(), error) : socket_.write_some(left, error);
      if (error == asio::error::would_block || error == asio::error::try_again) {
        return socket_.async_write_some(left, then(&HttpConnection::write_more));
      }
    }
    ((*this).*output_.then)(error, output_.written);
  }

  void read_request() {
    if (reader_.begin()) {  // A byte that is there already starts the next request.
      if (is_draining()) return finish();
      return begin_request();
    }
    expire_after(shared_->options.idle_timeout);
    // In this order: who drains ends the idle ones after having said so.
    state_ = State::kIdle;
    if (is_draining()) return finish();
    read_some(reader_.prepare(), &HttpConnection::on_first_bytes);
  }

  void on_first_bytes(error_code error, std::size_t size) {
    if (error || state_.exchange(State::kBusy) == State::kEnded) return finish();
    reader_.commit(size);
    begin_request();
  }

  void begin_request() {
    expire_after(shared_->options.header_timeout);
    parse();
  }

  void read_more() {
    const auto room = reader_.prepare();
    if (room.empty()) return refuse({400, ErrorCode::kInvalidArgument, "a line is too long"});
    read_some(room, &HttpConnection::on_more);
  }

  void on_more(error_code error, std::size_t size) {
    if (error) return finish();
    reader_.commit(size);
    parse();
  }

  void parse() {
    switch (reader_.parse()) {
      case HttpRequestReader::Step::kReadMore:
        return read_more();
      case HttpRequestReader::Step::kRefused:
        return refuse(reader_.refusal());
      case HttpRequestReader::Step::kWhole:
        return answer();
      case HttpRequestReader::Step::kHeader:
        break;
    }
    expire_after(shared_->options.body_timeout);
    if (!reader_.waits_for_continue()) return parse();
    write_all("HTTP/1.1 100 Continue\r\n\r\n", "", &HttpConnection::on_continued);
  }

  void on_continued(error_code error, std::size_t) {
    if (error) return finish();
    read_more();
  }

  // Answers without having read the whole request, so the connection cannot continue.
  void refuse(const HttpRefusal& refusal) {
    HttpResponse answer = error_answer_of(refusal.code, refusal.text);
    answer.status = refusal.status;
    exchange_ = {};
    linger_.is_needed = true;
    reader_.end();
    write(std::move(answer));
  }

  void answer() {
    HttpRequest taken = reader_.take(exchange_);
    taken.is_from_this_host = from_this_host_ && taken.header(kRemoteHeader).empty();
    // The time of the model is not the client's to keep.
    expire_never();
    if (shared_->start && shared_->start(taken, self())) return;
    auto request = std::make_shared<HttpRequest>(std::move(taken));
    FairQueue::Job act = [self = self(), request] {
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
    if (is_draining() || answer.stream) exchange_.keep_alive = false;
    std::string header = response_header(std::move(output_.header), answer, exchange_);
    log_exchange(exchange_, answer, peer_);
    expire_after(shared_->options.write_timeout);
    if (exchange_.is_head) answer.body.clear();
    if (answer.stream && !exchange_.is_head) {
      return begin_stream(std::move(header), std::move(answer));
    }
    write_all(std::move(header), std::move(answer.body), &HttpConnection::on_written);
  }

  // The end of the connection is the end of the body.
  void begin_stream(std::string header, HttpResponse answer) {
    kept_ = self();
    {
      const std::lock_guard lock(stream_.mutex);
      stream_.is_begun = true;
      stream_.is_writing = true;
    }
    answer.stream(std::make_shared<ConnectionStream>(kept_));
    write_all(std::move(header), std::move(answer.body), &HttpConnection::on_stream_written);
  }

  // Under the mutex of the stream.
  void wake_stream() {
    if (std::exchange(stream_.is_writing, true)) return;
    asio::post(socket_.get_executor(), [self = self()] { self->send_stream(error_code()); });
  }

  // Not further down the same stack, which would grow as long as there is more to send.
  void on_stream_written(error_code error, std::size_t) {
    asio::post(socket_.get_executor(), [self = self(), error] { self->send_stream(error); });
  }

  void send_stream(error_code error) {
    std::string next;
    {
      const std::lock_guard lock(stream_.mutex);
      if (error || (stream_.waiting.empty() && stream_.is_closing)) {
        stream_.is_closing = true;
      } else if (stream_.waiting.empty()) {
        stream_.is_writing = false;
        return expire_never();
      } else {
        next = std::exchange(stream_.waiting, {});
      }
    }
    if (!next.empty()) {
      expire_after(shared_->options.write_timeout);
      return write_all({}, std::move(next), &HttpConnection::on_stream_written);
    }
    finish();
    kept_.reset();
  }

  void on_written(error_code error, std::size_t) {
    // A small buffer is used again.
    output_.header.clear();
    if (output_.header.capacity() > kMostKeptHeaderBytes) output_.header = {};
    output_.body = {};
    if (error || !exchange_.keep_alive) return finish();
    if (!reader_.has_bytes()) return read_request();
    // The next request is here: not further down the same stack, which would grow with each.
    asio::post(socket_.get_executor(), [self = self()] { self->read_request(); });
  }

  void finish() {
    reader_.end();
    error_code ignored;
    // Lets the client read what was written before it sees the end.
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    if (!std::exchange(linger_.is_needed, false)) return;
    expire_after(kLingerTime);
    linger_.left = kMostLingerBytes;
    on_lingered(error_code(), 0);
  }

  // Closing with bytes unread would reset the connection, and the client would lose the answer.
  void on_lingered(error_code error, std::size_t size) {
    if (error || size >= linger_.left) return;
    linger_.left -= size;
    const auto room = reader_.prepare_to_drop();
    socket_.async_read_some(asio::mutable_buffer(room.data(), room.size()),
                            then(&HttpConnection::on_lingered));
  }

  const std::shared_ptr<HttpShared> shared_;
  Socket socket_;
  std::unique_ptr<Tls> tls_{};
  // For the log.
  std::string peer_{};
  const bool from_this_host_;
  const bool is_too_many_;
  // When what is under way takes too long.
  std::atomic<Clock::rep> deadline_{Clock::time_point::max().time_since_epoch().count()};
  std::atomic<State> state_{State::kBusy};
  HttpRequestReader reader_;
  HttpExchange exchange_{};
  Output output_{};
  Linger linger_{};
  Stream stream_{};
  // Itself while an answer continues: nothing else keeps it between two pieces.
  std::shared_ptr<HttpConnection> kept_{};
};

bool ConnectionStream::send(std::string_view bytes) {
  const auto connection = connection_.lock();
  return connection && connection->send(bytes);
}

void ConnectionStream::close() {
  if (const auto connection = connection_.lock()) connection->end_stream();
}

}  // namespace

std::shared_ptr<ClientConnection> make_http_connection(AcceptedSocket accepted,
                                                       std::shared_ptr<HttpShared> shared) {
  Socket socket(shared->loop->io());
  error_code error;
  const auto protocol = accepted.peer.ss_family == AF_INET6 ? tcp::v6() : tcp::v4();
  socket.assign(protocol, accepted.descriptor.number(), error);
  if (error) return nullptr;
  accepted.descriptor.release();
  return std::make_shared<HttpConnection>(std::move(accepted), std::move(socket),
                                          std::move(shared));
}

}  // namespace muster::serving
