#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/core/batch_queue.h"
#include "muster/serving/core/model_config.h"
#include "muster/serving/http/http_server.h"

/// The files that TensorFlow Serving is started with, in protobuf's text format. All functions
/// throw InvalidArgument with the line and column of what is wrong.
namespace muster::serving {

/// --model_config_file. Labels, policies and paths are checked; `logging_config` is warned of.
std::vector<ModelConfig> parse_model_config(std::string_view text);

/// --batching_parameters_file: the options, and the batches that are computed at one time (zero:
/// not given). What has no meaning here is warned of.
struct BatchingFile {
  BatchOptions options{};
  std::size_t threads = 0;
};
BatchingFile parse_batching_parameters(std::string_view text);

/// --monitoring_config_file: where TensorFlow Serving's page for Prometheus is; empty when it is
/// not enabled.
std::string parse_monitoring_config(std::string_view text);

/// --ssl_config_file.
TlsOptions parse_ssl_config(std::string_view text);

}  // namespace muster::serving
