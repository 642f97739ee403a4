#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/wait.h"
#include "muster/serving/http/http_message.h"
#include "muster/serving/listener/byte_budget.h"
#include "muster/serving/listener/tls_options.h"

namespace muster::serving {

class EventLoop;

struct HttpServerOptions {
  /// Empty: all addresses of this host.
  std::string address{};
  /// 0: any that is free.
  std::uint16_t port = 0;
  TlsOptions tls{};
  /// Whose threads read, and write, and begin what can be begun. None: one of its own, of so many
  /// threads; zero: as EventLoop has it.
  std::shared_ptr<EventLoop> loop{};
  std::size_t io_threads = 0;
  /// Requests that threads answer at one time; zero: four per processor, 32 at least. The threads
  /// begin when they are needed.
  std::size_t workers = 0;
  /// Requests that may wait for a worker; more are refused with 429.
  std::size_t max_waiting = 1024;
  /// More are refused with 503, far more closed as they come.
  std::size_t max_connections = 20'000;
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_body_bytes = std::size_t{64} << 20;
  /// Memory budget of the bodies of all requests, until they are answered; more are refused with
  /// 429. None: kTotalBodyBytes.
  std::shared_ptr<ByteBudget> body_budget{};
  static constexpr std::size_t kTotalBodyBytes = std::size_t{1} << 30;
  /// For the header of a request, from its first byte; for its body; for an answer to be taken.
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds write_timeout{60'000};
  /// How long a connection may be kept without a request.
  std::chrono::milliseconds idle_timeout{120'000};
  /// A line in the log for every request.
  bool log_requests = false;
};

/// HTTP/1.1, also over TLS: connections, limits and threads. What requests mean is the business of
/// `handle`.
class HttpServer {
 public:
  using Handle = std::function<HttpResponse(HttpRequest request)>;
  /// Whom a request waits for when all workers are busy, a model say: these take turns. Nothing for
  /// a request that is answered at once.
  using QueueOf = std::function<std::optional<std::string>(const HttpRequest& request)>;

  /// Asked first, in the thread that has read the request: begins to answer without waiting for
  /// anything, and has the answer sent when it is there. False, with the request as it was, for one
  /// that is left to `handle`.
  using Start = std::function<bool(HttpRequest& request, const std::shared_ptr<HttpReply>& reply)>;

  /// Listens from now on. Throws Unavailable when the port is taken, InvalidArgument for
  /// invalid certificates.
  HttpServer(HttpServerOptions options, Handle handle, QueueOf queue_of, Start start = {});
  /// Waits for what is being answered.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  std::size_t connections() const;

  /// For connections from now on. Throws InvalidArgument for invalid certificates,
  /// FailedPrecondition when the server was started without any.
  void set_certificates(const TlsOptions& options);

  /// Takes no more connections, and closes those without a request. Returns at once.
  void begin_drain();
  /// The same, and waits for the other connections. False when some are left at the end of the
  /// time; the destructor closes them.
  bool drain(const Deadline& deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
