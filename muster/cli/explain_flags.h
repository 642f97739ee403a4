#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "muster/cli/predict_flags.h"
#include "muster/saved_model/executor/explanation.h"

namespace muster::cli {

struct ExplainFlags {
  /// The model and the instances.
  PredictFlags of{};
  executor::ExplainOptions options{};
  /// A file with one instance.
  std::string baseline{};
  bool as_json = false;
};

/// The flags of `muster explain`.
void add_explain_flags(CLI::App& command, ExplainFlags& flags);

/// The request that the flags and the files they name make: the body of :explain.
std::string explain_request(const ExplainFlags& flags);

/// Prints the answer to such a request: as it is, or as a table for each instance, with the largest
/// parts first.
void print_explanations(const std::string& answer, bool as_json);

}  // namespace muster::cli
