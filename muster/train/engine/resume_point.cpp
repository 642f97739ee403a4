#include "muster/train/engine/resume_point.h"

#include <string>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

// Throws DataLoss.
std::optional<RunState> run_state_of(const OpenCheckpoint& checkpoint) {
  if (checkpoint.state_json.empty()) return std::nullopt;
  const Path& prefix = checkpoint.bundle.prefix();
  const std::string file = checkpoint_state_json_path(prefix).string();
  RunState state = parse_run_state(checkpoint.state_json, file);
  if (state.global_step != checkpoint_step(prefix).value_or(state.global_step)) {
    throw DataLoss("{} is of step {}", file, state.global_step);
  }
  return state;
}

void check_run_state(const OpenCheckpoint& checkpoint) { run_state_of(checkpoint); }

}  // namespace

std::int64_t ResumePoint::step() const {
  return checkpoint_step(checkpoint.bundle.prefix()).value_or(0);
}

std::optional<ResumePoint> latest_resume_point(const Path& model_dir) {
  auto checkpoint = restore_latest(model_dir, check_run_state);
  if (!checkpoint) return std::nullopt;
  auto state = run_state_of(*checkpoint);
  return ResumePoint{std::move(*checkpoint), std::move(state)};
}

}  // namespace muster
