#include "muster/server/http_server.h"

#include <fmt/core.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/thread_pool.h"
#include "muster/server/rest_api.h"

namespace muster::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr std::size_t kMostTargetBytes = 8 << 10;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kLingerTime{2000};
constexpr std::size_t kMostLingerBytes = std::size_t{16} << 20;

/// What all connections of a server share.
struct Shared {
  HttpServerOptions options{};
  HttpServer::Handle handle{};
  HttpServer::MayWait may_wait{};
  std::atomic<bool> draining{false};
  std::atomic<std::size_t> waiting{0};
  ThreadPool* workers = nullptr;

  class Connection {
   public:
    virtual ~Connection() = default;
    /// Keeps it from being destroyed; nothing when that has begun.
    virtual std::shared_ptr<Connection> held() = 0;
    /// Any thread may call it.
    virtual void close_if_idle() = 0;
  };
  std::mutex mutex{};
  std::condition_variable changed{};
  std::set<Connection*> connections{};

  void enter(Connection& connection) {
    const std::lock_guard lock(mutex);
    connections.insert(&connection);
  }
  void leave(Connection& connection) {
    const std::lock_guard lock(mutex);
    connections.erase(&connection);
    changed.notify_all();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return connections.size();
  }
};

bool is_this_host(const asio::ip::address& address) {
  if (address.is_loopback()) return true;
  return address.is_v6() && address.to_v6().is_v4_mapped() &&
         asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
}

/// One connection: requests one after the other. Its functions run in its strand.
template <typename Stream>
class Session : public std::enable_shared_from_this<Session<Stream>>, public Shared::Connection {
 public:
  Session(Stream stream, std::shared_ptr<Shared> shared)
      : stream_(std::move(stream)), shared_(std::move(shared)) {
    error_code error;
    const auto peer = socket().remote_endpoint(error);
    if (!error) {
      peer_ = peer.address().to_string();
      from_this_host_ = is_this_host(peer.address());
    }
    socket().set_option(tcp::no_delay(true), error);
    shared_->enter(*this);
  }
  ~Session() override { shared_->leave(*this); }

  void start() {
    asio::dispatch(stream_.get_executor(), [self = this->shared_from_this()] {
      if constexpr (std::is_same_v<Stream, TlsStream>) {
        self->shake_hands();
      } else {
        self->read_header();
      }
    });
  }

  std::shared_ptr<Shared::Connection> held() override { return this->weak_from_this().lock(); }

  void close_if_idle() override {
    asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
      if (self->idle_) beast::get_lowest_layer(self->stream_).cancel();
    });
  }

 private:
  tcp::socket& socket() { return beast::get_lowest_layer(stream_).socket(); }
  void expire_after(std::chrono::milliseconds time) {
    beast::get_lowest_layer(stream_).expires_after(time);
  }

  void shake_hands() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      expire_after(shared_->options.header_timeout);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](error_code error) {
                                if (!error) self->read_header();
                              });
    }
  }

  void read_header() {
    if (shared_->draining) return close();
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_->options.max_header_bytes));
    parser_->body_limit(shared_->options.max_body_bytes);
    idle_ = true;
    // A byte that is there already is the start of the next request.
    expire_after(buffer_.size() > 0 ? shared_->options.header_timeout
                                    : shared_->options.idle_timeout);
    if (buffer_.size() > 0) return read_rest_of_header();
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = this->shared_from_this()](error_code error, std::size_t size) {
                              if (error) return self->close();
                              self->buffer_.commit(size);
                              self->expire_after(self->shared_->options.header_timeout);
                              self->read_rest_of_header();
                            });
  }

  void read_rest_of_header() {
    idle_ = false;
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = this->shared_from_this()](error_code error, std::size_t) {
                              self->on_header(error);
                            });
  }

  void on_header(error_code error) {
    if (error) return on_read_error(error);
    const auto& message = parser_->get();
    if (message.target().size() > kMostTargetBytes) {
      return refuse(414, "the path of the request is too long");
    }
    const auto length = parser_->content_length();
    if (length && *length > shared_->options.max_body_bytes) return refuse_body();
    expire_after(shared_->options.body_timeout);
    if (beast::iequals(message[http::field::expect], "100-continue")) return send_continue();
    read_body();
  }

  void send_continue() {
    continue_.emplace(http::status::continue_, parser_->get().version());
    http::async_write(stream_, *continue_,
                      [self = this->shared_from_this()](error_code error, std::size_t) {
                        if (error) return self->close();
                        self->read_body();
                      });
  }

  void read_body() {
    http::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](error_code error, std::size_t) {
                       if (error) return self->on_read_error(error);
                       self->answer();
                     });
  }

  void on_read_error(error_code error) {
    if (error == http::error::header_limit) return refuse(431, "the header is too large");
    if (error == http::error::body_limit) return refuse_body();
    if (error.category() == http::make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message) {
      return refuse(400, "this is no HTTP request");
    }
    close();
  }

  void refuse_body() {
    refuse(413, fmt::format("the body is larger than the {} bytes that are allowed; "
                            "--rest-api-max-body-bytes raises the limit",
                            shared_->options.max_body_bytes));
  }

  // Answers without having read the whole request, so the connection cannot go on.
  void refuse(int status, const std::string& text) {
    keep_alive_ = false;
    unread_ = true;
    HttpAnswer answer = error_answer_of(ErrorCode::kInvalidArgument, text);
    answer.status = status;
    write(std::move(answer));
  }

  HttpRequest take_request() {
    auto message = parser_->release();
    HttpRequest request;
    request.method = std::string(message.method_string());
    request.target = std::string(message.target());
    for (const auto& field : message) {
      request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    request.body = std::move(message.body());
    request.is_from_this_host = from_this_host_;
    request.received = std::chrono::steady_clock::now();
    keep_alive_ = message.keep_alive();
    is_head_ = message.method() == http::verb::head;
    version_ = message.version();
    if (shared_->options.log_requests) {
      logged_ = fmt::format("{} {}", request.method, request.target.substr(0, 200));
    }
    received_ = request.received;
    return request;
  }

  void answer() {
    HttpRequest request = take_request();
    // The time of the model is not the client's to keep.
    beast::get_lowest_layer(stream_).expires_never();
    if (!shared_->may_wait(request)) return write(shared_->handle(std::move(request)));
    if (shared_->waiting.fetch_add(1) >= shared_->options.max_waiting) {
      --shared_->waiting;
      return write(error_answer_of(ErrorCode::kResourceExhausted,
                                   "too many requests wait to be answered; try again later"));
    }
    auto job = std::make_shared<HttpRequest>(std::move(request));
    shared_->workers->submit([self = this->shared_from_this(), job](const std::stop_token&) {
      --self->shared_->waiting;
      auto result = std::make_shared<HttpAnswer>(self->shared_->handle(std::move(*job)));
      asio::post(self->stream_.get_executor(), [self, result] { self->write(std::move(*result)); });
    });
  }

  void write(HttpAnswer answer) {
    if (shared_->draining) keep_alive_ = false;
    response_.emplace(static_cast<http::status>(answer.status), version_);
    if (response_->result_int() != static_cast<unsigned>(answer.status)) {
      response_->result(static_cast<unsigned>(answer.status));
    }
    if (!answer.content_type.empty()) {
      response_->set(http::field::content_type, answer.content_type);
    }
    for (const auto& [name, value] : answer.headers) response_->set(name, value);
    response_->keep_alive(keep_alive_);
    log(answer);
    if (is_head_) {
      response_->content_length(answer.body.size());
    } else {
      response_->body() = std::move(answer.body);
      response_->prepare_payload();
      // Also where there is nothing: a client would wait for it.
      if (response_->body().empty()) response_->content_length(0);
    }
    expire_after(shared_->options.write_timeout);
    http::async_write(stream_, *response_,
                      [self = this->shared_from_this()](error_code error, std::size_t) {
                        if (error || !self->keep_alive_) return self->close();
                        self->response_.reset();
                        self->read_header();
                      });
  }

  void log(const HttpAnswer& answer) {
    if (!shared_->options.log_requests || logged_.empty()) return;
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - received_;
    log::info("request {} status={} bytes={} ms={:.3f} peer={}", logged_, answer.status,
              answer.body.size(), took.count(), peer_);
    logged_.clear();
  }

  void close() {
    error_code ignored;
    // Lets the client read what was written before it sees the end.
    socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (!std::exchange(unread_, false)) return;
    expire_after(kLingerTime);
    linger(kMostLingerBytes);
  }

  // Closing with bytes unread would reset the connection, and the client would lose the answer.
  void linger(std::size_t left) {
    buffer_.clear();
    beast::get_lowest_layer(stream_).async_read_some(
        buffer_.prepare(1 << 16),
        [self = this->shared_from_this(), left](error_code error, std::size_t size) {
          if (!error && size < left) self->linger(left - size);
        });
  }

  Stream stream_;
  std::shared_ptr<Shared> shared_;
  std::string peer_{};
  bool from_this_host_ = false;
  beast::flat_buffer buffer_{};
  std::optional<http::request_parser<http::string_body>> parser_{};
  std::optional<http::response<http::empty_body>> continue_{};
  std::optional<http::response<http::string_body>> response_{};
  bool idle_ = false;
  bool unread_ = false;
  bool keep_alive_ = false;
  bool is_head_ = false;
  unsigned version_ = 11;
  std::string logged_{};
  std::chrono::steady_clock::time_point received_{};
};

asio::ssl::context tls_context(const TlsOptions& options) {
  asio::ssl::context context(asio::ssl::context::tls_server);
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                      asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                      asio::ssl::context::no_tlsv1_1);
  const auto buffer = [](const std::string& text) {
    return asio::const_buffer(text.data(), text.size());
  };
  try {
    context.use_certificate_chain(buffer(options.certificate));
    context.use_private_key(buffer(options.key), asio::ssl::context::pem);
    if (!options.client_ca.empty()) context.add_certificate_authority(buffer(options.client_ca));
    if (options.require_client) {
      if (options.client_ca.empty()) {
        throw InvalidArgument("client certificates are asked for, but there is no custom_ca");
      }
      context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
    }
  } catch (const boost::system::system_error& error) {
    throw InvalidArgument("the certificate or key for TLS cannot be used: {}",
                          error.code().message());
  }
  return context;
}

std::size_t or_default(std::size_t given, std::size_t value, std::size_t least) {
  return given > 0 ? given : std::max(value, least);
}

}  // namespace

struct HttpServer::Impl {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::optional<asio::ssl::context> tls{};
  asio::io_context io{};
  // A worker with an answer comes back, also when nothing else is left to do.
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{io};
  asio::steady_timer pause{io};
  std::uint16_t port = 0;
  std::optional<ThreadPool> workers{};
  std::vector<std::jthread> threads{};

  void listen() {
    const HttpServerOptions& options = shared->options;
    error_code error;
    if (options.address.empty()) {
      listen_at(asio::ip::address_v6::any(), error);
      // A host without IPv6.
      if (error && error != asio::error::address_in_use) {
        listen_at(asio::ip::address_v4::any(), error);
      }
    } else {
      const auto address = asio::ip::make_address(options.address, error);
      if (error) throw InvalidArgument("\"{}\" is no IP address", options.address);
      listen_at(address, error);
    }
    if (error) {
      throw Unavailable("cannot listen on port {}{}{}: {}", options.port,
                        options.address.empty() ? "" : " of ", options.address, error.message());
    }
    port = acceptor.local_endpoint().port();
  }

  void listen_at(const asio::ip::address& address, error_code& error) {
    const tcp::endpoint endpoint(address, shared->options.port);
    acceptor.close(error);
    acceptor.open(endpoint.protocol(), error);
    if (error) return;
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (address.is_v6() && address.is_unspecified()) {
      acceptor.set_option(asio::ip::v6_only(false), error);
    }
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  }

  void accept() {
    acceptor.async_accept(asio::make_strand(io), [this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
      if (error) {
        // Out of descriptors, most likely: those who are here go first.
        pause.expires_after(kAcceptPause);
        pause.async_wait([this](error_code stopped) {
          if (!stopped) accept();
        });
        return;
      }
      if (shared->count() < shared->options.max_connections) begin(std::move(socket));
      accept();
    });
  }

  void begin(tcp::socket socket) {
    if (tls) {
      std::make_shared<Session<TlsStream>>(TlsStream(PlainStream(std::move(socket)), *tls), shared)
          ->start();
    } else {
      std::make_shared<Session<PlainStream>>(PlainStream(std::move(socket)), shared)->start();
    }
  }
};

HttpServer::HttpServer(HttpServerOptions options, Handle handle, MayWait may_wait)
    : impl_(std::make_unique<Impl>()) {
  const std::size_t processors = ThreadPool::available_processors();
  if (options.tls.enabled()) impl_->tls.emplace(tls_context(options.tls));
  impl_->shared->handle = std::move(handle);
  impl_->shared->may_wait = std::move(may_wait);
  impl_->shared->options = std::move(options);
  impl_->listen();
  impl_->workers.emplace(or_default(impl_->shared->options.workers, 4 * processors, 16));
  impl_->shared->workers = &*impl_->workers;
  impl_->accept();
  const std::size_t count = or_default(impl_->shared->options.io_threads, processors, 2);
  for (std::size_t i = 0; i < count; ++i) {
    impl_->threads.emplace_back([impl = impl_.get()] { impl->io.run(); });
  }
}

HttpServer::~HttpServer() {
  impl_->shared->draining = true;
  // Workers first: they hand their answers to the event loop.
  impl_->workers.reset();
  impl_->io.stop();
  impl_->threads.clear();
}

std::uint16_t HttpServer::port() const { return impl_->port; }
std::size_t HttpServer::connections() const { return impl_->shared->count(); }

bool HttpServer::drain(const Deadline& deadline) {
  Shared& shared = *impl_->shared;
  shared.draining = true;
  asio::post(impl_->io, [impl = impl_.get()] {
    error_code ignored;
    impl->acceptor.close(ignored);
  });
  // The set does not own the connections, and the last to hold one takes the mutex.
  std::vector<std::shared_ptr<Shared::Connection>> held;
  {
    const std::lock_guard lock(shared.mutex);
    for (Shared::Connection* connection : shared.connections) {
      if (auto one = connection->held()) held.push_back(std::move(one));
    }
  }
  for (const auto& connection : held) connection->close_if_idle();
  held.clear();
  std::unique_lock lock(shared.mutex);
  const auto empty = [&] { return shared.connections.empty(); };
  if (!deadline.is_never()) return shared.changed.wait_until(lock, deadline.time(), empty);
  shared.changed.wait(lock, empty);
  return true;
}

}  // namespace muster::server
