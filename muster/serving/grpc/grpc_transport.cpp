#include "muster/serving/grpc/grpc_transport.h"

#include <utility>

#include "muster/serving/grpc/grpc_connection_internal.h"
#include "muster/serving/listener/listener.h"

namespace muster::serving {
namespace {

constexpr std::chrono::milliseconds kLookInterval{250};

std::shared_ptr<GrpcShared> shared_of(EventLoop& loop, BlockingPool& threads,
                                      GrpcTransportOptions options, GrpcMethods methods) {
  auto shared = std::make_shared<GrpcShared>();
  shared->budget = std::make_shared<ByteBudget>(options.max_total_bytes);
  shared->options = std::move(options);
  shared->methods = std::move(methods);
  shared->loop = &loop;
  shared->threads = &threads;
  return shared;
}

ListenerOptions listener_options(const GrpcTransportOptions& options) {
  return {.address = options.address,
          .port = options.port,
          .socket_path = options.socket_path,
          .tls = options.tls,
          .tls_protocol = kHttp2Protocol,
          .max_connections = options.max_connections,
          .look_interval = kLookInterval};
}

}  // namespace

struct GrpcTransport::Impl {
  Impl(std::shared_ptr<EventLoop> its_loop, GrpcTransportOptions options, GrpcMethods methods)
      : loop(std::move(its_loop)),
        threads({.threads = options.threads, .waiting = options.threads}),
        shared(shared_of(*loop, threads, std::move(options), std::move(methods))),
        listener(*loop, listener_options(shared->options), [held = shared](AcceptedSocket socket) {
          return std::make_shared<GrpcConnection>(std::move(socket), held);
        }) {}

  const std::shared_ptr<EventLoop> loop;
  BlockingPool threads;
  const std::shared_ptr<const GrpcShared> shared;
  // Last: its end waits for all connections, which use the others.
  Listener listener;
};

GrpcTransport::GrpcTransport(std::shared_ptr<EventLoop> loop, GrpcTransportOptions options,
                             GrpcMethods methods)
    : impl_(std::make_unique<Impl>(std::move(loop), std::move(options), std::move(methods))) {}

GrpcTransport::~GrpcTransport() = default;

std::uint16_t GrpcTransport::port() const { return impl_->listener.port(); }
std::size_t GrpcTransport::connections() const { return impl_->listener.connections(); }

void GrpcTransport::set_certificates(const TlsOptions& options) {
  impl_->listener.set_certificates(options);
}

void GrpcTransport::begin_drain() { impl_->listener.begin_drain(); }

bool GrpcTransport::drain(const Deadline& deadline) {
  if (impl_->listener.drain(deadline)) return true;
  impl_->listener.close_all();
  return false;
}

}  // namespace muster::serving
