#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "muster/saved_model/executor/run_limits.h"

namespace muster::cli {

struct ModelRunFlags {
  std::string dir{};
  std::string tag_set = "serve";
  std::string signature_def = "serving_default";
  /// "key=file.npy;key=file.npz[name]"
  std::string inputs{};
  /// "key=[[1, 2], [3, 4]];key=np.ones((2, 3))"
  std::string input_exprs{};
  /// "key=[{'age': [39]}]"
  std::string input_examples{};
  std::string outdir{};
  bool overwrite = false;
  executor::RunLimits limits{};
};

/// The flags of `muster model run`.
void add_model_run_flags(CLI::App& command, ModelRunFlags& flags);

}  // namespace muster::cli
