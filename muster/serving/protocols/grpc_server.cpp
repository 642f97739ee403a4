#include "muster/serving/protocols/grpc_server.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <limits>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/thread_pool.h"
#include "muster/serving.pb.h"
#include "muster/serving/protocols/grpc_health_internal.h"
#include "muster/serving/protocols/grpc_reflection_internal.h"
#include "muster/serving/protocols/grpc_services_internal.h"
#include "muster/serving/protocols/protobuf_log_internal.h"
#include "muster/serving/protocols/tensorflow/tensorflow_calls_internal.h"

namespace muster::serving {
namespace {

namespace tfs = tensorflow::serving;
using std::chrono::milliseconds;

// ------------------------------------------------------------------------------ TensorFlow Serving

Caller caller_of(const GrpcContext& context) { return {.deadline = context.deadline}; }

/// A call that start(caller, request, done) begins: its thread goes on before it is answered.
template <typename Start>
GrpcMethod started_method(Service& service, GrpcWork work, Start start) {
  return {.work = work, .handle = [&service, start = std::move(start)](const GrpcCallPtr& call) {
            check_access(service, call->context(), Role::kPredict);
            start(caller_of(call->context()), call->request(),
                  [call](std::string answer, const std::exception_ptr& failure) {
                    if (failure) return call->finish(status_of(failure));
                    call->answer(std::move(answer));
                  });
          }};
}

void add_tensorflow_methods(Service& service, const TensorFlowCallOptions& options,
                            GrpcMethods& methods) {
  const auto add = [&]<typename Request, typename Response, typename Act>(
                       const char* name, GrpcWork work, Role role, const Request&, const Response&,
                       const Act& act) {
    methods["/tensorflow.serving." + std::string(name)] = message_method<Request, Response>(
        work, [&service, role, act](const GrpcContext& context, const Request& request,
                                    Response& response) {
          check_access(service, context, role);
          act(caller_of(context), request, response);
        });
  };
  const auto add_started = [&](const char* name, GrpcWork work, const auto& start) {
    methods["/tensorflow.serving.PredictionService/" + std::string(name)] =
        started_method(service, work, start);
  };
  const auto with_options = [&service, options](auto* start) {
    return [&service, options, start](const Caller& caller, std::string_view request,
                                      AnswerDone done) {
      start(service, request, caller, options, std::move(done));
    };
  };
  add_started("Predict", GrpcWork::kBySize, with_options(start_predict));
  add_started("Classify", GrpcWork::kBySize, with_options(start_classify));
  add_started("Regress", GrpcWork::kBySize, with_options(start_regress));
  add_started("MultiInference", GrpcWork::kBySize, with_options(start_multi_inference));
  add("PredictionService/GetModelMetadata", GrpcWork::kShort, Role::kPredict,
      tfs::GetModelMetadataRequest(), tfs::GetModelMetadataResponse(),
      [&service](const auto&, const auto& in, auto& out) { model_metadata(service, in, out); });
  add("ModelService/GetModelStatus", GrpcWork::kShort, Role::kPredict, tfs::GetModelStatusRequest(),
      tfs::GetModelStatusResponse(),
      [&service](const auto&, const auto& in, auto& out) { model_status(service, in, out); });
  add("ModelService/HandleReloadConfigRequest", GrpcWork::kLong, Role::kAdmin,
      tfs::ReloadConfigRequest(), tfs::ReloadConfigResponse(),
      [&service](const auto& caller, const auto& in, auto& out) {
        reload_config(service, in, caller, out);
      });
}

// ------------------------------------------------------------------------------ options

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

std::vector<std::string> service_names(bool reflection) {
  std::vector<std::string> names{"grpc.health.v1.Health"};
  if (reflection) names.emplace_back("grpc.reflection.v1alpha.ServerReflection");
  for (const char* name : {"inference.GRPCInferenceService", "tensorflow.serving.ModelService",
                           "tensorflow.serving.PredictionService"}) {
    names.emplace_back(name);
  }
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
  add_tensorflow_methods(service,
                         {.raw_answers = options.raw_answers,
                          .most_tensor_bytes = options.max_message_bytes,
                          .check_method_names = options.check_method_names},
                         methods);
  add_inference_methods(service, options.repository_control, methods);
  impl_->health.add_methods(methods);
  if (options.reflection) add_reflection_methods(service, service_names(true), methods);
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
  // TensorFlow Serving's short names, and the full ones.
  for (const char* name :
       {"PredictionService", "ModelService", "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService", "inference.GRPCInferenceService"}) {
    impl_->health.set(name, serving);
  }
}

void GrpcServer::begin_drain() { impl_->transport->begin_drain(); }
bool GrpcServer::drain(const Deadline& deadline) { return impl_->transport->drain(deadline); }

}  // namespace muster::serving
