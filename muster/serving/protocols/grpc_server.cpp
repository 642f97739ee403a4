#include "muster/serving/protocols/grpc_server.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/thread_pool.h"
#include "muster/serving/protocols/grpc_health_internal.h"
#include "muster/serving/protocols/grpc_reflection_internal.h"
#include "muster/serving/protocols/protobuf_log_internal.h"
#include "muster/serving/protocols/protocol_internal.h"

namespace muster::serving {
namespace {

using std::chrono::milliseconds;

// gRPC's own settings, as far as they mean something here.
void set_argument(const std::string& name, std::int64_t value, GrpcTransportOptions& options) {
  const milliseconds time(value);
  if (name == "grpc.max_concurrent_streams") {
    options.http2.max_streams = static_cast<std::uint32_t>(value);
  } else if (name == "grpc.max_metadata_size") {
    options.http2.max_header_bytes = static_cast<std::size_t>(value);
  } else if (name == "grpc.http2.lookahead_bytes") {
    options.http2.stream_window = static_cast<std::uint32_t>(value);
  } else if (name == "grpc.max_receive_message_length") {
    options.max_message_bytes = static_cast<std::size_t>(value);
  } else if (name == "grpc.server_handshake_timeout_ms") {
    options.handshake_timeout = time;
  } else if (name == "grpc.max_connection_idle_ms") {
    options.max_idle = time;
  } else if (name == "grpc.max_connection_age_ms") {
    options.max_age = time;
  } else if (name == "grpc.max_connection_age_grace_ms") {
    options.max_age_grace = time;
  } else if (name == "grpc.keepalive_time_ms") {
    options.keepalive_time = time;
  } else if (name == "grpc.keepalive_timeout_ms") {
    options.keepalive_timeout = time;
  } else {
    log::warning("--grpc-channel-arguments: this server has no setting {}", name);
  }
}

void set_arguments(const std::vector<std::pair<std::string, std::string>>& arguments,
                   GrpcTransportOptions& options) {
  for (const auto& [name, value] : arguments) {
    std::int64_t number = 0;
    const char* const last = value.data() + value.size();
    const auto [end, error] = std::from_chars(value.data(), last, number);
    if (error != std::errc() || end != last || number < 0 ||
        number > std::numeric_limits<std::int32_t>::max()) {
      log::warning("--grpc-channel-arguments: {} is not used, its value is no number: {}", name,
                   value);
      continue;
    }
    set_argument(name, number, options);
  }
}

std::size_t threads_of(const GrpcServerOptions& options) {
  return options.max_threads > 0 ? options.max_threads : 64 * ThreadPool::available_processors();
}

GrpcTransportOptions transport_options(const GrpcServerOptions& options) {
  GrpcTransportOptions out;
  out.address = options.address;
  out.port = options.port;
  out.socket_path = options.socket_path;
  out.tls = options.tls;
  out.max_message_bytes =
      std::min<std::size_t>(options.max_message_bytes, std::numeric_limits<int>::max());
  out.max_total_bytes = options.max_total_bytes;
  out.threads = threads_of(options);
  set_arguments(options.channel_arguments, out);
  return out;
}

// Those of all protocols, then the others; in the order of the alphabet.
std::vector<std::string> service_names() {
  std::vector<std::string> names{"grpc.health.v1.Health",
                                 "grpc.reflection.v1alpha.ServerReflection"};
  for (const Protocol& protocol : all_protocols()) {
    for (const GrpcServiceName& service : protocol.grpc_services) names.emplace_back(service.name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

struct GrpcServer::Impl {
  GrpcHealth health{};
  std::optional<GrpcTransport> transport{};
};

GrpcServer::GrpcServer(Service& service, const GrpcServerOptions& options)
    : impl_(std::make_unique<Impl>()) {
  quiet_protobuf();
  service.limit_grpc_calls(threads_of(options));
  GrpcMethods methods;
  for (const Protocol& protocol : all_protocols()) {
    if (protocol.add_grpc_methods) protocol.add_grpc_methods(service, options, methods);
  }
  impl_->health.add_methods(methods);
  if (options.reflection) add_reflection_methods(service, service_names(), methods);
  set_serving(true);
  impl_->transport.emplace(service.loop(), transport_options(options), std::move(methods));
}

GrpcServer::~GrpcServer() = default;

std::uint16_t GrpcServer::port() const { return impl_->transport->port(); }

void GrpcServer::set_certificates(const TlsOptions& options) {
  impl_->transport->set_certificates(options);
}

void GrpcServer::set_serving(bool serving) {
  impl_->health.set("", serving);
  for (const Protocol& protocol : all_protocols()) {
    for (const GrpcServiceName& service : protocol.grpc_services) {
      impl_->health.set(service.name, serving);
      if (service.short_name != nullptr) impl_->health.set(service.short_name, serving);
    }
  }
}

void GrpcServer::begin_drain() { impl_->transport->begin_drain(); }
bool GrpcServer::drain(const Deadline& deadline) { return impl_->transport->drain(deadline); }

}  // namespace muster::serving
