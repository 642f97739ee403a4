#include "muster/run/checkpoint_follower_internal.h"

#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint.h"

namespace muster::internal {

CheckpointFollower::CheckpointFollower(CheckpointUse& use, Path model_dir,
                                       std::optional<std::int64_t> max_steps)
    : use_(use), model_dir_(std::move(model_dir)), max_steps_(max_steps) {}

bool CheckpointFollower::sees_max_steps() const {
  const auto latest = latest_checkpoint(model_dir_);
  return max_steps_ && latest && checkpoint_step(*latest).value_or(-1) >= *max_steps_;
}

void CheckpointFollower::log_left_out() const {
  std::string steps;
  for (const Path& checkpoint : list_checkpoints(model_dir_)) {
    const std::int64_t step = checkpoint_step(checkpoint).value_or(-1);
    if (step > evaluated_step_ && step < newest_step_) {
      steps += fmt::format("{}{}", steps.empty() ? "" : ", ", step);
    }
  }
  if (steps.empty()) return;
  log::info("not evaluated: steps {}, since step {} was there before their turn came", steps,
            newest_step_);
}

CheckpointFollower::Sight CheckpointFollower::look(bool is_last) {
  const auto latest = latest_checkpoint(model_dir_);
  if (!latest) return Sight::kMissing;
  const std::int64_t step = checkpoint_step(*latest).value_or(-1);
  const bool is_new = step != newest_step_;
  if (is_new) last_news_ = Clock::now();
  newest_step_ = step;
  is_last = is_last || (max_steps_ && step >= *max_steps_);
  if (!is_last) {
    if (step == evaluated_step_) return Sight::kNothingNew;
    if (!use_.is_due(step)) {
      if (is_new) use_.log_not_due(step);
      return Sight::kNothingNew;
    }
  }
  std::optional<CheckpointPin> pin;
  try {
    pin.emplace(*latest);
  } catch (const NotFound&) {
    return Sight::kNothingNew;  // Deleted just now, so there is a newer one.
  }
  if (evaluated_step_ >= 0) log_left_out();
  use_.evaluate(*latest, is_last);
  evaluated_step_ = step;
  return Sight::kEvaluated;
}

}  // namespace muster::internal
