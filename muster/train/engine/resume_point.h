#pragma once

#include <cstdint>
#include <optional>

#include "muster/data/checkpoint/checkpoint.h"
#include "muster/train/engine/run_state.h"

namespace muster {

/// The checkpoint from which a run continues, with what was saved beside its tensors.
struct ResumePoint {
  OpenCheckpoint checkpoint;
  /// Nothing in TensorFlow's own checkpoints.
  std::optional<RunState> state{};

  /// As the checkpoint's name has it; 0 where it has none.
  std::int64_t step() const;
};

/// The newest whole checkpoint of a folder, as restore_latest() finds it: a state that is not of
/// the checkpoint's step makes it damaged.
std::optional<ResumePoint> latest_resume_point(const Path& model_dir);

}  // namespace muster
