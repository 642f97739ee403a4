#pragma once

#include <memory>
#include <optional>
#include <string>

#include "muster/base/file_system.h"
#include "muster/train/estimator/specs.h"

namespace muster {

struct BestCheckpointOptions {
  /// Name of the metric that evaluations are compared by.
  std::string metric = "loss";
  bool higher_is_better = false;
};

/// Keeps a copy of the checkpoint whose evaluation is best, those of runs before this one included,
/// whatever CheckpointConfig::keep_checkpoint_max deletes. It is one of EvalSpec::exporters, under
/// the name `best_checkpoint`; the copy lies in MODEL_DIR/export/best_checkpoint, and its step and
/// metrics in MODEL_DIR/muster.json. Of equal ones the first stays; any number is better than NaN.
/// publish() throws NotFound for an evaluation without the metric, with those there are.
std::shared_ptr<Exporter> best_checkpoint_keeper(BestCheckpointOptions options = {});

/// The prefix of the best checkpoint that was kept, for EvaluateOptions::checkpoint_path and its
/// like; nothing if none was.
std::optional<Path> best_checkpoint(const Path& model_dir);

}  // namespace muster
