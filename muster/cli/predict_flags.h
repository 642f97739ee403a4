#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "muster/saved_model/executor/run_limits.h"

namespace muster::cli {

struct PredictFlags {
  std::string model_dir{};
  /// In the place of a folder: a model that a server answers for.
  std::string model{};
  std::string version{};
  std::string server = "localhost:8501";
  /// Exactly one of the three names a file; "-" is standard input.
  std::string json_instances{};
  std::string text_instances{};
  std::string json_request{};
  std::string signature_name{};
  std::string tag_set = "serve";
  std::string framework{};
  bool as_json = false;
  executor::RunLimits limits{};
};

/// Which model, and which instances.
void add_instance_flags(CLI::App& command, PredictFlags& flags);
/// The flags of `muster predict`.
void add_predict_flags(CLI::App& command, PredictFlags& flags);

}  // namespace muster::cli
