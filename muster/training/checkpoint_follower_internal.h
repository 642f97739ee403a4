#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "muster/training/checkpoint_evaluator_internal.h"

namespace muster::internal {

/// Evaluates the newest checkpoints of a folder that somebody else writes, while that goes on.
/// Checkpoints that come while another is evaluated are left out, with a line that says so.
class CheckpointFollower {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Sight { kMissing, kNothingNew, kEvaluated };

  static constexpr std::chrono::milliseconds kLookEvery{500};

  /// The evaluator must outlive it. What is saved at max_steps is exported as the final model.
  CheckpointFollower(CheckpointEvaluator& evaluator, Path model_dir,
                     std::optional<std::int64_t> max_steps);

  /// Evaluates the newest checkpoint if it is new and due; `is_last`: also if it is not due, and
  /// exports it as the final model. It cannot be deleted meanwhile.
  Sight look(bool is_last);

  /// Whether the checkpoint of max_steps is there.
  bool sees_max_steps() const;
  /// What was evaluated last; -1 if nothing was.
  std::int64_t evaluated_step() const { return evaluated_step_; }
  bool is_at_max_steps() const { return max_steps_ && evaluated_step_ >= *max_steps_; }
  /// When a checkpoint was last seen that was not there before, or else when this was made.
  Clock::time_point last_news() const { return last_news_; }

 private:
  void log_left_out() const;

  CheckpointEvaluator& evaluator_;
  const Path model_dir_;
  const std::optional<std::int64_t> max_steps_;
  std::int64_t newest_step_ = -1;
  std::int64_t evaluated_step_ = -1;
  Clock::time_point last_news_ = Clock::now();
};

}  // namespace muster::internal
