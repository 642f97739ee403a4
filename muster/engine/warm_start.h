#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/model/module_variables.h"
#include "muster/optim/named_tensor.h"

namespace muster {

/// Rows of a table that were numbered by one vocabulary, to be found again under another.
struct VocabInfo {
  /// One token a line; the line's number is the row.
  Path new_vocab{};
  /// Not set: all of the file.
  std::optional<std::int64_t> new_vocab_size{};
  std::int64_t num_oov_buckets = 0;
  Path old_vocab{};
  std::optional<std::int64_t> old_vocab_size{};
  /// The dimension that tokens number: 0 or 1.
  int axis = 0;
};

/// Which values of an older checkpoint a model begins with. A checkpoint in model_dir wins over it.
struct WarmStartSettings {
  /// A model folder (its latest checkpoint), a checkpoint's prefix, or a SavedModel.
  Path ckpt_to_initialize_from{};
  /// Regular expressions over names. With one entry only trainable variables are looked at; with
  /// several also buffers and optimizer slots, as in tf.estimator.
  std::vector<std::string> vars_to_warm_start{".*"};
  /// By the variable's name.
  std::map<std::string, VocabInfo> var_name_to_vocab_info{};
  /// From our name to the older checkpoint's.
  std::map<std::string, std::string> var_name_to_prev_var_name{};
};

/// What can be warm-started: the live tensor, and how it stands in a checkpoint.
struct WarmStartTarget {
  NamedTensor variable{};
  VariableLayout layout = VariableLayout::kAsIs;
  bool trainable = true;
};

/// Copies values into the targets that the settings name, and logs what it did. Throws NotFound for
/// a missing checkpoint or variable, InvalidArgument for another shape, with both, or a regular
/// expression that matches nothing.
void warm_start(std::span<const WarmStartTarget> targets, const WarmStartSettings& settings);

}  // namespace muster
