#include "muster/cli/serve_flags.h"

#include <algorithm>

#include "muster/cli/limit_flags.h"

namespace muster::cli {
namespace {

// TensorFlow Serving's flags that say how TensorFlow is to run, or what is always so here.
constexpr const char* kWithoutMeaning[] = {
    "num_load_threads",
    "num_unload_threads",
    "flush_filesystem_caches",
    "enable_per_model_batching_parameters",
    "enable_grpc_healthcheck_service",
    "enable_profiler",
    "tensorflow_session_parallelism",
    "tensorflow_inter_op_parallelism",
    "tensorflow_session_config_file",
    "platform_config_file",
    "thread_pool_factory_config_file",
    "per_process_gpu_memory_fraction",
    "remove_unused_fields_from_bundle_metagraph",
    "prefer_tflite_model",
    "num_tflite_pools",
    "num_tflite_interpreters_per_pool",
    "mixed_precision",
    "xla_cpu_compilation_enabled",
    "xla_gpu_compilation_enabled",
    "use_alts_credentials",
    "skip_initialize_tpu",
};

// "--model-name,--model_name"
std::string spellings(const std::string& name) {
  std::string dashes = name;
  std::ranges::replace(dashes, '_', '-');
  return dashes == name ? "--" + name : "--" + dashes + ",--" + name;
}

template <typename T>
CLI::Option* add(CLI::App& command, const char* name, T& value, const char* help) {
  if constexpr (std::is_same_v<T, bool>) {
    // As TensorFlow's flags: alone, or with =true or =false.
    return command.add_flag(spellings(name), value, help);
  } else {
    return command.add_option(spellings(name), value, help);
  }
}

void add_model_flags(CLI::App& command, ServeFlags& flags) {
  command.add_option("folder", flags.folder,
                     "A SavedModel, a folder of numbered ones, the model folder of a run, or a "
                     "TorchScript file (which is code: serve files that you trust)");
  add(command, "model_base_path", flags.model_base_path, "The same, as TensorFlow Serving has it");
  add(command, "model_name", flags.model_name,
      "The model's name in requests (the folder's name; default with --model-base-path)");
  add(command, "models_dir", flags.models_dir,
      "Serve all models of a folder of muster models and muster versions");
  add(command, "model_config_file", flags.model_config_file,
      "Many models: a ModelServerConfig in protobuf's text format");
  add(command, "model_config_file_poll_wait_seconds", flags.model_config_file_poll_wait_seconds,
      "Seconds between reads of that file (0: only on SIGHUP)");
  add(command, "file_system_poll_wait_seconds", flags.file_system_poll_wait_seconds,
      "Seconds between looks for new versions (1; 0: once)");
  add(command, "max_num_load_retries", flags.max_num_load_retries, "Retries of a failed load (5)");
  add(command, "load_retry_interval_micros", flags.load_retry_interval_micros,
      "Time between retries (60 s)");
  add(command, "allow_version_labels_for_unavailable_models",
      flags.allow_version_labels_for_unavailable_models,
      "A new label may name a version that is not loaded");
  add(command, "resource_preserving", flags.resource_preserving,
      "Unload the old version before the new one is loaded: less memory, and a gap");
  add(command, "saved_model_tags", flags.saved_model_tags,
      "The tags of the graph, separated by commas (serve)");
  add(command, "enable_model_warmup", flags.enable_model_warmup,
      "Ask what assets.extra/tf_serving_warmup_requests holds before a version answers (true)");
  add(command, "num_request_iterations_for_warmup", flags.num_request_iterations_for_warmup,
      "Repetitions of each warmup request (1)");
}

void add_port_flags(CLI::App& command, ServeFlags& flags) {
  add(command, "address", flags.address, "The address to listen on (all of this host)");
  add(command, "port", flags.port, "Port of gRPC (8500); 0: none, auto: any free port");
  add(command, "rest_api_port", flags.rest_api_port,
      "Port of REST (8501); 0: none, auto: any free port");
  add(command, "grpc_socket_path", flags.grpc_socket_path, "A Unix socket for gRPC");
  add(command, "grpc_max_threads", flags.grpc_max_threads, "Concurrent calls (64 per processor)");
  add(command, "grpc_max_message_bytes", flags.grpc_max_message_bytes, "Of a request (128 MiB)");
  add(command, "grpc_max_total_bytes", flags.grpc_max_total_bytes,
      "Of all requests together (1 GiB)");
  add(command, "grpc_channel_arguments", flags.grpc_channel_arguments,
      "Settings of gRPC: name=value,name=value");
  add(command, "grpc_reflection", flags.grpc_reflection, "Offer gRPC reflection (true)");
  add(command, "enable_serialization_as_tensor_content",
      flags.enable_serialization_as_tensor_content, "Answer with tensor_content");
  add(command, "enable_signature_method_name_check", flags.enable_signature_method_name_check,
      "Refuse predict, classify and regress for signatures made for another call");
  add(command, "rest_api_num_threads", flags.rest_api_num_threads,
      "Threads that answer REST (4 per processor)");
  add(command, "rest_api_timeout_in_ms", flags.rest_api_timeout_in_ms,
      "Timeout of a request (30000)");
  add(command, "rest_api_enable_cors_support", flags.rest_api_enable_cors_support,
      "Allow calls from pages of other sites (CORS)");
  add(command, "rest_api_max_body_bytes", flags.rest_api_max_body_bytes, "Of a request (64 MiB)");
  add(command, "rest_api_max_total_body_bytes", flags.rest_api_max_total_body_bytes,
      "Of all requests together (1 GiB)");
  add(command, "rest_api_max_connections", flags.rest_api_max_connections, "At one time (20000)");
  add(command, "log_requests", flags.log_requests, "Log every REST request");
}

void add_recording_flags(CLI::App& command, ServeFlags& flags) {
  CLI::Option* const folder =
      add(command, "record_requests", flags.record_requests,
          "Write requests and their answers to TFRecords of TensorFlow Serving's PredictionLog, in "
          "a folder per model in this one");
  add(command, "record_share", flags.record_share,
      "The share of the requests that are recorded, or kept for a warm-up file (0.01)")
      ->check(CLI::Range(0.0, 1.0));
  add(command, "record_max_bytes", flags.record_max_bytes,
      "Of a model's recorded requests; the oldest files are removed (1 GiB)")
      ->needs(folder);
  add(command, "record_file_bytes", flags.record_file_bytes, "Of one of the files (64 MiB)")
      ->needs(folder);
  add(command, "write_warm_up_requests", flags.write_warm_up_requests,
      "A version without a warm-up file gets one of so many of its requests (0: none)")
      ->check(CLI::Range(0, 1000));
}

void add_batch_flags(CLI::App& command, ServeFlags& flags) {
  add(command, "enable_batching", flags.enable_batching,
      "Batch requests of a signature while all slots are busy (true)");
  add(command, "batching_parameters_file", flags.batching_parameters_file,
      "BatchingParameters in protobuf's text format");
  add(command, "max_batch_size", flags.max_batch_size, "Rows of a batch (64)");
  add(command, "max_queue_delay_microseconds", flags.max_queue_delay_microseconds,
      "Longest wait of a request for others in its batch (0)");
  add(command, "max_queue_size", flags.max_queue_size, "Requests that may wait (1024)");
  add(command, "priority_levels", flags.priority_levels,
      "Levels of priority that requests of the Open Inference Protocol may name, 1 the highest "
      "(3)");
  add(command, "default_priority_level", flags.default_priority_level,
      "Priority of requests that name none (2)");
  add(command, "num_batch_threads", flags.num_batch_threads,
      "Batches computed at one time (one per processor)");
  add(command, "model_weights", flags.model_weights,
      "name=weight,name=weight: how busy models share slots and processors (1 each)");
  add(command, "response_cache_bytes", flags.response_cache_bytes,
      "Keep answers for requests that come again, up to so many bytes (0: none)");
  add(command, "shadow_traffic", flags.shadow_traffic,
      "MODEL=VERSION:SHARE,...: compute a share of the requests to a model again by another "
      "version, and compare");
  add(command, "shadow_tolerance", flags.shadow_tolerance,
      "How far the shadow's numbers may be off, as a part of the larger one (0.0001)")
      ->check(CLI::NonNegativeNumber);
  add_recording_flags(command, flags);
  add(command, "tensorflow_intra_op_parallelism", flags.tensorflow_intra_op_parallelism,
      "Threads per batch (0: the processors are divided among the running batches)")
      ->check(CLI::Range(0, 1024));
}

void add_node_flags(CLI::App& command, ServeFlags& flags) {
  CLI::Option* const fixed =
      add(command, "nodes", flags.nodes,
          "Processes that answer behind this one, which takes the requests, watches and replaces "
          "them (0: this process answers itself)")
          ->check(CLI::Range(0, 256));
  CLI::Option* const most = add(command, "max_nodes", flags.max_nodes,
                                "As many nodes as the load asks for, at most so many")
                                ->check(CLI::Range(1, 256))
                                ->excludes(fixed);
  add(command, "min_nodes", flags.min_nodes,
      "And at least so many (0: the first request after a pause waits for one)")
      ->check(CLI::Range(0, 256))
      ->needs(most);
  add(command, "node_addresses", flags.node_addresses,
      "Servers behind this one that others have started: HOST:PORT,HOST:PORT; a name stands for "
      "all "
      "of its addresses")
      ->delimiter(',')
      ->excludes(fixed)
      ->excludes(most);
  add(command, "node_queue_time_ms", flags.node_queue_time_ms,
      "Requests that wait longer in the queues of nodes, on the average, ask for more nodes (20)")
      ->check(CLI::PositiveNumber);
  add(command, "node_cool_down_secs", flags.node_cool_down_secs,
      "Nodes that were not needed for so long end (60)")
      ->check(CLI::PositiveNumber);
  add(command, "node_probe_timeout_secs", flags.node_probe_timeout_secs,
      "A node that does not answer for so long gets no requests (1)")
      ->check(CLI::PositiveNumber);
  add(command, "node_hang_timeout_secs", flags.node_hang_timeout_secs,
      "A node that does not answer for so long is killed and replaced (3)")
      ->check(CLI::PositiveNumber);
  add(command, "node_start_timeout_secs", flags.node_start_timeout_secs,
      "From the start of a node to its first answer (600)")
      ->check(CLI::PositiveNumber);
  add(command, "node_number", flags.node_number, "")->group("");
}

}  // namespace

void add_serve_flags(CLI::App& command, ServeFlags& flags) {
  add_model_flags(command, flags);
  add_port_flags(command, flags);
  add_batch_flags(command, flags);
  add_node_flags(command, flags);
  add(command, "monitoring_config_file", flags.monitoring_config_file,
      "MonitoringConfig in protobuf's text format: where TensorFlow Serving's metrics are");
  add(command, "ssl_config_file", flags.ssl_config_file,
      "SSLConfig in protobuf's text format: TLS on both ports");
  add(command, "tokens_file", flags.tokens_file,
      "A token and its role, predict or admin, a line: who may call");
  add(command, "allow_remote_admin", flags.allow_remote_admin,
      "Allow other hosts to change models without a token");
  add(command, "repository_control", flags.repository_control,
      "Offer load and unload of the Open Inference Protocol (true)");
  add(command, "exit_timeout_secs", flags.exit_timeout_secs,
      "Seconds to wait for requests in flight on SIGTERM (30)");
  add(command, "device", flags.device,
      "Where models compute: cpu, or a GPU such as cuda:0, with a CUDA graph for each batch size "
      "(cpu)");
  add_limit_flags(command, flags.limits);
  add(command, "max_server_live_bytes", flags.max_server_live_bytes,
      "Bytes of values of all requests at one time (half of the memory of this host)")
      ->check(CLI::NonNegativeNumber);
  for (const char* name : kWithoutMeaning) {
    // Hidden: they are there so that an existing start line works.
    command
        .add_option_function<std::string>(
            spellings(name),
            [&flags, name](const std::string&) { flags.ignored.emplace_back(name); }, "")
        ->expected(0, 1)
        ->group("");
  }
}

}  // namespace muster::cli
