#pragma once

#include <optional>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/saved_model/executor/run_limits.h"

namespace muster::cli {

/// The flags of `muster serve`: TensorFlow Serving's, with '-' or '_', and ours.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order of the help.
struct ServeFlags {
  /// A folder that is given without a flag.
  std::string folder{};
  std::string model_base_path{};
  std::string model_name{};
  std::string model_config_file{};
  std::string models_dir{};
  double model_config_file_poll_wait_seconds = 0;
  double file_system_poll_wait_seconds = 1;
  int max_num_load_retries = 5;
  std::int64_t load_retry_interval_micros = 60'000'000;
  bool allow_version_labels_for_unavailable_models = false;
  bool resource_preserving = false;
  std::string saved_model_tags = "serve";
  bool enable_model_warmup = true;
  int num_request_iterations_for_warmup = 0;

  std::string address{};
  /// A number, 0 for none, or "auto" for any that is free.
  std::string port = "8500";
  std::string rest_api_port = "8501";
  std::string grpc_socket_path{};
  std::size_t grpc_max_threads = 0;
  std::size_t grpc_max_message_bytes = std::size_t{128} << 20;
  std::size_t grpc_max_total_bytes = std::size_t{1} << 30;
  std::string grpc_channel_arguments{};
  bool enable_serialization_as_tensor_content = false;
  bool enable_signature_method_name_check = false;
  bool grpc_reflection = true;
  std::size_t rest_api_num_threads = 0;
  std::int64_t rest_api_timeout_in_ms = 30'000;
  bool rest_api_enable_cors_support = false;
  std::size_t rest_api_max_body_bytes = std::size_t{64} << 20;
  std::size_t rest_api_max_total_body_bytes = std::size_t{1} << 30;
  std::size_t rest_api_max_connections = 20'000;
  bool log_requests = false;

  bool enable_batching = true;
  std::string batching_parameters_file{};
  std::int64_t max_batch_size = 0;
  std::int64_t max_queue_delay_microseconds = 0;
  std::int64_t max_queue_size = 0;
  std::uint32_t priority_levels = 0;
  std::uint32_t default_priority_level = 0;
  std::size_t num_batch_threads = 0;
  std::string model_weights{};
  std::size_t response_cache_bytes = 0;
  std::string shadow_traffic{};
  double shadow_tolerance = 1e-4;
  /// Folder of recorded requests; empty: none are recorded.
  std::string record_requests{};
  double record_share = 0.01;
  std::uint64_t record_max_bytes = std::uint64_t{1} << 30;
  std::uint64_t record_file_bytes = std::uint64_t{64} << 20;
  std::size_t write_warm_up_requests = 0;
  int tensorflow_intra_op_parallelism = 0;

  std::string monitoring_config_file{};
  std::string ssl_config_file{};
  std::string tokens_file{};
  bool allow_remote_admin = false;
  bool repository_control = true;
  double exit_timeout_secs = 30;
  /// "cpu" or "cuda:0".
  std::string device = "cpu";
  executor::RunLimits limits{};
  /// Limit for all requests together; nothing for half of the memory that this process may use.
  std::optional<std::int64_t> max_server_live_bytes{};

  /// Processes that answer behind this one; 0: this process answers itself.
  std::size_t nodes = 0;
  /// Bounds of their number where it follows the load; no most: it does not.
  std::size_t min_nodes = 0;
  std::size_t max_nodes = 0;
  /// Servers that answer behind this one, which others have started: HOST:PORT each.
  std::vector<std::string> node_addresses{};
  double node_queue_time_ms = 20;
  double node_cool_down_secs = 60;
  double node_probe_timeout_secs = 1;
  double node_hang_timeout_secs = 3;
  double node_start_timeout_secs = 600;
  /// Number of the node that this process is, for a front that has started it; negative: none.
  int node_number = -1;

  /// Flags of TensorFlow Serving that were given and have no meaning here.
  std::vector<std::string> ignored{};
};

void add_serve_flags(CLI::App& command, ServeFlags& flags);

}  // namespace muster::cli
