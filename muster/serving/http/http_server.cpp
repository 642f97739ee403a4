#include "muster/serving/http/http_server.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "muster/base/thread_pool.h"
#include "muster/serving/http/http_connection_internal.h"
#include "muster/serving/listener/listener.h"

namespace muster::serving {
namespace {

// Connections beyond the limit that are told so before they are closed.
constexpr std::size_t kToldConnections = 256;

std::size_t or_default(std::size_t given, std::size_t value, std::size_t least) {
  return given > 0 ? given : std::max(value, least);
}

std::chrono::milliseconds look_interval(const HttpServerOptions& options) {
  const auto shortest = std::min(
      {options.header_timeout, options.body_timeout, options.write_timeout, options.idle_timeout});
  return std::clamp(shortest / 4, std::chrono::milliseconds(5), std::chrono::milliseconds(500));
}

ListenerOptions listener_options(const HttpServerOptions& options) {
  return {.address = options.address,
          .port = options.port,
          .tls = options.tls,
          .max_connections = options.max_connections,
          .told_connections = kToldConnections,
          .look_interval = look_interval(options)};
}

}  // namespace

struct HttpServer::Impl {
  std::shared_ptr<EventLoop> loop;
  std::shared_ptr<HttpShared> shared = std::make_shared<HttpShared>();
  std::optional<Listener> listener{};
};

HttpServer::HttpServer(HttpServerOptions options, Handle handle, QueueOf queue_of, Start start)
    : impl_(
          new Impl{options.loop ? options.loop : std::make_shared<EventLoop>(options.io_threads)}) {
  if (!options.body_budget) {
    options.body_budget = std::make_shared<ByteBudget>(HttpServerOptions::kTotalBodyBytes);
  }
  HttpShared& shared = *impl_->shared;
  shared.handle = std::move(handle);
  shared.queue_of = std::move(queue_of);
  shared.start = std::move(start);
  shared.loop = impl_->loop.get();
  // Connections share the options, and may be the last: the loop is not theirs to end.
  options.loop.reset();
  shared.options = std::move(options);
  const std::size_t workers =
      or_default(shared.options.workers, 4 * ThreadPool::available_processors(), 32);
  shared.jobs.emplace(
      FairQueue::Options{.running = workers, .waiting = shared.options.max_waiting});
  // As many wait as there are connections, at most.
  shared.workers.emplace(BlockingPool::Options{.threads = workers + impl_->loop->threads(),
                                               .waiting = std::numeric_limits<std::size_t>::max()});
  impl_->listener.emplace(*impl_->loop, listener_options(shared.options),
                          [held = impl_->shared](AcceptedSocket socket) {
                            return make_http_connection(std::move(socket), held);
                          });
}

HttpServer::~HttpServer() {
  impl_->listener->begin_drain();
  impl_->shared->jobs->close();
  impl_->listener.reset();
  impl_->shared->workers.reset();
}

std::uint16_t HttpServer::port() const { return impl_->listener->port(); }
std::size_t HttpServer::connections() const { return impl_->listener->connections(); }

void HttpServer::set_certificates(const TlsOptions& options) {
  impl_->listener->set_certificates(options);
}

void HttpServer::begin_drain() { impl_->listener->begin_drain(); }
bool HttpServer::drain(const Deadline& deadline) { return impl_->listener->drain(deadline); }

}  // namespace muster::serving
