#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/host_memory.h"
#include "muster/base/log.h"
#include "muster/base/thread_pool.h"
#include "muster/cli/command.h"
#include "muster/cli/saved_model_argument.h"
#include "muster/cli/serve_flags.h"
#include "muster/cli/serve_setup.h"
#include "muster/cli/words.h"
#include "muster/nn/device/devices.h"
#include "muster/serving/codec/model_files.h"
#include "muster/serving/codec/model_folder.h"
#include "muster/serving/core/config_files.h"
#include "muster/serving/core/model_store.h"
#include "muster/serving/core/service.h"
#include "muster/serving/core/shadow_traffic.h"
#include "muster/serving/core/version_folders.h"
#include "muster/serving/executable/executable_servable.h"
#include "muster/serving/http/http_server.h"
#include "muster/serving/listener/listening_socket.h"
#include "muster/serving/protocols/grpc_server.h"
#include "muster/serving/protocols/rest_api.h"
#include "muster/serving/protocols/tensorflow/request_recorder.h"
#include "muster/serving/protocols/tensorflow/warm_up.h"
#include "muster/train/engine/arithmetic.h"

namespace muster::cli {
namespace {

using serving::ModelConfig;
using std::chrono::milliseconds;

// "census" for census, census/, census/1, census/1/model.pt and census.pt; a training's, too,
// whatever its exporter is called.
std::string name_of_folder(const Path& folder) {
  Path path = std::filesystem::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (serving::torch_script_in(path) == path) {
    if (path.filename() != serving::kTorchScriptName) return path.stem().string();
    path = path.parent_path();
  }
  const bool is_number =
      path.filename().string().find_first_not_of("0123456789") == std::string::npos;
  if (is_number && path.has_parent_path()) path = path.parent_path();
  return path.filename().string();
}

ModelConfig single_model(const ServeFlags& flags) {
  const std::string& given = flags.folder.empty() ? flags.model_base_path : flags.folder;
  const char* const flag = flags.folder.empty() ? "--model-base-path" : "the folder";
  const Path folder = strip_file_scheme(given);
  const Path base = serving::serving_folder(folder);
  if (!file_exists(base)) throw NotFound("{}: there is no folder or file {}", flag, given);
  if (serving::versions_in(base).empty())
    find_saved_model(base);  // Throws, and says what is there.
  std::string name = flags.model_name;
  if (name.empty()) name = flags.model_base_path.empty() ? name_of_folder(folder) : "default";
  return {.name = name, .base_path = base};
}

std::vector<ModelConfig> models_of(const ServeFlags& flags) {
  const int ways = (flags.folder.empty() ? 0 : 1) + (flags.model_base_path.empty() ? 0 : 1) +
                   (flags.model_config_file.empty() ? 0 : 1) + (flags.models_dir.empty() ? 0 : 1);
  if (ways != 1) {
    throw UsageError(
        "what to serve is said in one way: a folder, --model-base-path or --model-config-file, or "
        "--models-dir");
  }
  if (!flags.models_dir.empty()) {
    if (!file_exists(flags.models_dir)) {
      throw NotFound("--models-dir: there is no folder {}; muster models create makes one",
                     flags.models_dir);
    }
    return serving::models_in(flags.models_dir);
  }
  if (flags.model_config_file.empty()) return {single_model(flags)};
  return from_config_file("--model-config-file", flags.model_config_file,
                          serving::parse_model_config);
}

void set_priorities(const ServeFlags& flags, serving::BatchOptions& batching) {
  if (flags.priority_levels > 0) {
    batching.priority_levels = flags.priority_levels;
    batching.default_priority_level =
        std::min(batching.default_priority_level, flags.priority_levels);
  }
  if (flags.default_priority_level > batching.priority_levels) {
    throw InvalidArgument("--default-priority-level: there are {} levels: {}",
                          batching.priority_levels, flags.default_priority_level);
  }
  if (flags.default_priority_level > 0) {
    batching.default_priority_level = flags.default_priority_level;
  }
}

at::Device device_of(const ServeFlags& flags) {
  const std::vector<c10::Device> devices = resolve_devices({flags.device}, "--device");
  if (devices[0].is_cuda()) {
    // Answers have the same bits every time, in whole float32.
    choose_gpu_kernels(/*deterministic=*/true);
    log::info("models compute on {}", describe(devices));
  }
  return devices[0];
}

// So many threads for each batch, or its part of all.
serving::ExecutionSlots::Divide division_of_threads(int given) {
  if (given > 0) return [given](std::size_t) { use_cpu_threads(given); };
  return [all = default_cpu_threads()](std::size_t parts) {
    use_cpu_threads(std::max(all / static_cast<int>(parts), 1));
  };
}

// Memory pool that requests of all models share.
std::shared_ptr<executor::MemoryPool> memory_pool(const ServeFlags& flags) {
  const auto half = static_cast<std::int64_t>(memory_of_process() / 2);
  return std::make_shared<executor::MemoryPool>(flags.max_server_live_bytes.value_or(half));
}

serving::ModelWeights weights_of(const std::string& list) {
  serving::ModelWeights weights;
  if (list.empty()) return weights;
  for (const std::string& item : cli::split(list, ',')) {
    const auto equals = item.rfind('=');
    std::uint32_t weight = 0;
    const char* const end = item.data() + item.size();
    const bool has_both = equals != std::string::npos && equals > 0;
    const auto read = has_both ? std::from_chars(item.data() + equals + 1, end, weight)
                               : std::from_chars_result{end, std::errc::invalid_argument};
    if (read.ec != std::errc{} || read.ptr != end || weight < 1 || weight > 1000) {
      throw UsageError(
          "--model-weights must be name=weight,name=weight with whole numbers from 1 to 1000: {}",
          list);
    }
    if (!weights.emplace(item.substr(0, equals), weight).second) {
      throw UsageError("--model-weights names a model twice: {}", list);
    }
  }
  return weights;
}

// A wrong name is to be seen, unless models may come later.
void check_weights(const ServeFlags& flags, const std::vector<ModelConfig>& models) {
  for (const auto& [name, weight] : weights_of(flags.model_weights)) {
    if (std::ranges::find(models, name, &ModelConfig::name) != models.end()) continue;
    if (flags.model_config_file.empty() && flags.models_dir.empty()) {
      throw UsageError("--model-weights: there is no model {}; it is {}", name, models[0].name);
    }
    log::warning("--model-weights: there is no model {} yet", name);
  }
}

serving::ShadowOptions shadow_options(const ServeFlags& flags) {
  serving::ShadowOptions options{.tolerance = flags.shadow_tolerance};
  for (const std::string& rule : cli::split(flags.shadow_traffic, ',')) {
    try {
      options.rules.push_back(serving::ShadowRule::parse(rule));
    } catch (const InvalidArgument& error) {
      throw UsageError("--shadow-traffic: {}", error.message());
    }
  }
  return options;
}

// Nothing when no request is to be kept.
std::shared_ptr<serving::RequestRecorder> request_recorder(const ServeFlags& flags) {
  if (flags.record_requests.empty() && flags.write_warm_up_requests == 0) return nullptr;
  try {
    return std::make_shared<serving::RequestRecorder>(
        serving::RecordingOptions{.folder = flags.record_requests,
                                  .share = flags.record_share,
                                  .most_bytes = flags.record_max_bytes,
                                  .file_bytes = flags.record_file_bytes,
                                  .warm_up_requests = flags.write_warm_up_requests});
  } catch (const InvalidArgument& error) {
    throw UsageError("--record-share, --record-max-bytes and --record-file-bytes: {}",
                     error.message());
  }
}

serving::StoreOptions store_options(const ServeFlags& flags,
                                    const std::shared_ptr<serving::RequestRecorder>& recorder) {
  serving::StoreOptions options;
  options.load = serving::executable_loader({.tags = tags_of(flags.saved_model_tags),
                                             .device = device_of(flags),
                                             .declared_shapes = false,
                                             .explain = true,
                                             .limits = flags.limits,
                                             .memory = memory_pool(flags)});
  const int times =
      flags.enable_model_warmup ? std::max(1, flags.num_request_iterations_for_warmup) : 0;
  options.warm_up = [times, recorder](const serving::ModelVersion& version, const Path& dir) {
    if (times > 0) serving::warm_up(version, dir, times);
    if (recorder) recorder->note_version(version, dir);
  };
  options.slots = flags.num_batch_threads;
  if (!flags.batching_parameters_file.empty()) {
    const auto file = from_config_file("--batching-parameters-file", flags.batching_parameters_file,
                                       serving::parse_batching_parameters);
    options.batching = file.options;
    if (file.threads > 0) options.slots = file.threads;
  }
  options.divide = division_of_threads(flags.tensorflow_intra_op_parallelism);
  options.weights = weights_of(flags.model_weights);
  if (flags.response_cache_bytes > 0) {
    options.cache = std::make_shared<serving::ResponseCache>(flags.response_cache_bytes);
  }
  if (flags.max_batch_size > 0) options.batching.max_batch_size = flags.max_batch_size;
  if (flags.max_queue_delay_microseconds > 0) {
    options.batching.delay = std::chrono::microseconds(flags.max_queue_delay_microseconds);
  }
  if (flags.max_queue_size > 0) {
    options.batching.max_waiting = static_cast<std::size_t>(flags.max_queue_size);
  }
  set_priorities(flags, options.batching);
  if (!flags.enable_batching) options.batching.join = false;
  options.poll_interval = to_time(std::max(0.0, flags.file_system_poll_wait_seconds));
  options.max_load_retries = flags.max_num_load_retries;
  options.load_retry_interval = milliseconds(flags.load_retry_interval_micros / 1000);
  // In a folder of models a version has its name from the start.
  options.allow_labels_for_unavailable =
      flags.allow_version_labels_for_unavailable_models || !flags.models_dir.empty();
  options.resource_preserving = flags.resource_preserving;
  return options;
}

/// Where it listens; nothing for a protocol that is off.
struct Ports {
  std::optional<std::uint16_t> grpc{};
  std::optional<std::uint16_t> rest{};
};

// Also whether they are free: models may take long to load, and their server is not to end then.
Ports ports_of(const ServeFlags& flags) {
  const Ports ports{.grpc = port_of("--port", flags.port),
                    .rest = port_of("--rest-api-port", flags.rest_api_port)};
  if (!ports.grpc && !ports.rest && flags.grpc_socket_path.empty()) {
    throw UsageError("--port and --rest-api-port are both 0: there is nothing to listen on");
  }
  if (ports.grpc && ports.rest && *ports.grpc != 0 && *ports.grpc == *ports.rest) {
    throw UsageError("--port and --rest-api-port must differ: {}", *ports.grpc);
  }
  for (const auto& [flag, port] :
       {std::pair("--port", ports.grpc), std::pair("--rest-api-port", ports.rest)}) {
    try {
      if (port) serving::check_port(flags.address, *port);
    } catch (Error& error) {
      error.add_context(flag);
      throw;
    }
  }
  return ports;
}

std::vector<std::pair<std::string, std::string>> channel_arguments(const std::string& list) {
  std::vector<std::pair<std::string, std::string>> arguments;
  if (list.empty()) return arguments;
  for (const std::string& item : cli::split(list, ',')) {
    const auto equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("--grpc-channel-arguments must be name=value,name=value: {}", list);
    }
    arguments.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
  return arguments;
}

// A model that is named on the command line must answer: mistakes are to be reported at the start.
void check_loaded(const serving::ModelStore& store) {
  for (const ModelConfig& model : store.models()) {
    for (const serving::VersionStatus& status : store.status(model.name)) {
      if (status.state == serving::VersionState::kAvailable) return;
      if (status.code != ErrorCode::kOk) throw Error(status.code, status.message);
    }
  }
}

/// The running server.
class Serving {
 public:
  explicit Serving(const ServeFlags& flags)
      : flags_(flags),
        models_(models_of(flags)),
        recorder_(request_recorder(flags)),
        store_(store_options(flags, recorder_)),
        service_(store_, access_of(flags)) {
    if (!flags.ssl_config_file.empty()) {
      tls_ =
          from_config_file("--ssl-config-file", flags.ssl_config_file, serving::parse_ssl_config);
    }
    // All that flags say is read before models are loaded, which may take long.
    const Ports ports = ports_of(flags);
    check_weights(flags, models_);
    if (!flags.shadow_traffic.empty()) {
      service_.add_observer(
          std::make_shared<serving::ShadowTraffic>(store_, shadow_options(flags)));
    }
    if (recorder_) service_.add_observer(recorder_);
    serving::GrpcServerOptions grpc = grpc_options(ports.grpc.value_or(0));
    serving::RestOptions rest = rest_options();
    service_.configure(models_);
    store_.wait_until_settled(Deadline::never());
    if (flags.model_config_file.empty() && flags.models_dir.empty()) check_loaded(store_);
    if (ports.grpc) open_grpc(std::move(grpc));
    if (ports.rest) open_rest(*ports.rest, std::move(rest));
  }

  void run() {
    SignalPipe signals;
    if (flags_.node_number >= 0) say_ports();
    std::string config = config_text();
    const double seconds = flags_.models_dir.empty() ? flags_.model_config_file_poll_wait_seconds
                                                     : flags_.file_system_poll_wait_seconds;
    const milliseconds wait = seconds > 0 ? to_time(seconds) : milliseconds(-1);
    while (true) {
      const char what = signals.wait(wait);
      if (what == 's') break;
      if (what == 'h' && !flags_.ssl_config_file.empty()) reload_certificates();
      if (!flags_.models_dir.empty()) {
        look_at_models_dir();
      } else if (!flags_.model_config_file.empty()) {
        reload(config, /*always=*/what == 'h');
      } else if (what == 'h' && flags_.ssl_config_file.empty()) {
        log::info("SIGHUP: there is no --model-config-file to read again");
      }
    }
    drain();
  }

 private:
  serving::GrpcServerOptions grpc_options(std::uint16_t port) const {
    serving::GrpcServerOptions options;
    options.address = flags_.address;
    options.port = port;
    options.socket_path = flags_.grpc_socket_path;
    options.tls = tls_;
    options.max_message_bytes = flags_.grpc_max_message_bytes;
    options.max_total_bytes = flags_.grpc_max_total_bytes;
    options.max_threads = flags_.grpc_max_threads;
    options.raw_answers = flags_.enable_serialization_as_tensor_content;
    options.check_method_names = flags_.enable_signature_method_name_check;
    options.reflection = flags_.grpc_reflection;
    options.repository_control = flags_.repository_control;
    options.channel_arguments = channel_arguments(flags_.grpc_channel_arguments);
    return options;
  }

  void open_grpc(serving::GrpcServerOptions options) {
    grpc_.emplace(service_, options);
    log::info("Running gRPC ModelServer at {}:{} ...", shown_address(), grpc_->port());
  }

  serving::RestOptions rest_options() const {
    serving::RestOptions rest;
    rest.timeout = milliseconds(flags_.rest_api_timeout_in_ms);
    rest.cors = flags_.rest_api_enable_cors_support;
    rest.inflate.most_bytes = flags_.rest_api_max_body_bytes;
    rest.body_budget = std::make_shared<serving::ByteBudget>(flags_.rest_api_max_total_body_bytes);
    rest.check_method_names = flags_.enable_signature_method_name_check;
    rest.repository_control = flags_.repository_control;
    if (!flags_.models_dir.empty()) {
      rest.catalog = std::make_shared<serving::ModelFolder>(flags_.models_dir);
    }
    if (!flags_.monitoring_config_file.empty()) {
      rest.prometheus_path =
          from_config_file("--monitoring-config-file", flags_.monitoring_config_file,
                           serving::parse_monitoring_config);
    }
    return rest;
  }

  void open_rest(std::uint16_t port, serving::RestOptions rest) {
    api_.emplace(service_, rest);
    serving::HttpServerOptions options;
    options.address = flags_.address;
    options.port = port;
    options.tls = tls_;
    options.workers = flags_.rest_api_num_threads;
    options.max_body_bytes = flags_.rest_api_max_body_bytes;
    options.body_budget = rest.body_budget;
    options.max_connections = flags_.rest_api_max_connections;
    options.log_requests = flags_.log_requests;
    options.loop = service_.loop();
    http_.emplace(
        std::move(options),
        [this](serving::HttpRequest request) { return api_->handle(std::move(request)); },
        serving::RestApi::queue_of,
        [this](serving::HttpRequest& request, const std::shared_ptr<serving::HttpReply>& reply) {
          return api_->start(request, reply);
        });
    // The front says where the service is, not each of its nodes.
    if (flags_.node_number >= 0) return;
    log::info("Exporting HTTP/REST API at:{}:{} ...", shown_address(), http_->port());
  }

  // To the front that has started this node.
  void say_ports() const {
    fmt::print("ports rest={} grpc={}\n", http_ ? http_->port() : 0, grpc_ ? grpc_->port() : 0);
    std::fflush(stdout);
  }

  std::string shown_address() const { return flags_.address.empty() ? "0.0.0.0" : flags_.address; }

  std::string config_text() const {
    if (flags_.model_config_file.empty()) return {};
    return read_file(flags_.model_config_file, kMostConfigBytes);
  }

  // A wrong file leaves what is served as it is.
  void reload(std::string& last, bool always) {
    try {
      const std::string text = config_text();
      if (!always && text == last) return;
      last = text;
      service_.configure(serving::parse_model_config(text));
      log::info("read {} again", flags_.model_config_file);
    } catch (const Error& error) {
      log::error("{} is not used, what is served stays: {}", flags_.model_config_file,
                 error.what());
    }
  }

  void reload_certificates() {
    try {
      const auto tls =
          from_config_file("--ssl-config-file", flags_.ssl_config_file, serving::parse_ssl_config);
      if (http_) http_->set_certificates(tls);
      if (grpc_) grpc_->set_certificates(tls);
      log::info("read {} again: new connections have its certificates", flags_.ssl_config_file);
    } catch (const Error& error) {
      log::error("the certificates stay: {}", error.what());
    }
  }

  // Models that were created, changed or deleted since.
  void look_at_models_dir() {
    std::string complaint;
    try {
      std::vector<ModelConfig> models = serving::models_in(flags_.models_dir);
      if (models != models_) service_.configure(models);
      models_ = std::move(models);
    } catch (const Error& error) {
      complaint = error.what();
    }
    // Once, not with every look.
    if (!complaint.empty() && complaint != complaint_) {
      log::error("--models-dir {}: what is served stays: {}", flags_.models_dir, complaint);
    }
    complaint_ = complaint;
  }

  void drain() {
    log::info("stopping: no more connections; requests in flight are answered");
    const Deadline deadline = Deadline::after(to_time(flags_.exit_timeout_secs));
    service_.begin_drain();
    if (grpc_) grpc_->set_serving(false);
    // Both before either is waited for.
    if (grpc_) grpc_->begin_drain();
    if (http_) http_->begin_drain();
    const bool is_rest_drained = !http_ || http_->drain(deadline);
    const bool is_grpc_drained = !grpc_ || grpc_->drain(deadline);
    if (!is_rest_drained || !is_grpc_drained) {
      log::warning("requests were not answered within --exit-timeout-secs {}",
                   flags_.exit_timeout_secs);
    }
    log::info("stopped");
  }

  const ServeFlags& flags_;
  std::vector<ModelConfig> models_;
  std::string complaint_{};
  serving::TlsOptions tls_{};
  std::shared_ptr<serving::RequestRecorder> recorder_;
  serving::ModelStore store_;
  serving::Service service_;
  std::optional<serving::RestApi> api_{};
  std::optional<serving::GrpcServer> grpc_{};
  std::optional<serving::HttpServer> http_{};
};

void run_serve(const ServeFlags& flags) {
  log::set_task(flags.node_number < 0 ? "serve" : fmt::format("serve:{}", flags.node_number));
  for (const std::string& name : flags.ignored) {
    log::warning("--{} has no effect here: it is a setting of TensorFlow's own", name);
  }
  allow_descriptors(flags.rest_api_max_connections);
  Serving(flags).run();
}

}  // namespace

void add_serve(CLI::App& command) {
  const auto flags = std::make_shared<ServeFlags>();
  add_serve_flags(command, *flags);
  command.callback([flags] { run_serve(*flags); });
}

}  // namespace muster::cli
