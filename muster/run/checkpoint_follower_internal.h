#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "muster/base/file_system.h"

namespace muster::internal {

/// Interface for using the checkpoints that are followed.
class CheckpointUse {
 public:
  virtual ~CheckpointUse() = default;

  /// Whether the checkpoint of this step is due while training continues.
  virtual bool is_due(std::int64_t step) const = 0;
  /// Says so, if it is the time that keeps it.
  virtual void log_not_due(std::int64_t step) const = 0;
  virtual void evaluate(const Path& checkpoint, bool is_last) = 0;
};

/// Has the newest checkpoints of a folder evaluated while another process writes them. Checkpoints
/// that come while another is evaluated are skipped, with a line that says so.
class CheckpointFollower {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Sight { kMissing, kNothingNew, kEvaluated };

  static constexpr std::chrono::milliseconds kLookEvery{500};

  /// The use must outlive it. What is saved at max_steps is the last one.
  CheckpointFollower(CheckpointUse& use, Path model_dir, std::optional<std::int64_t> max_steps);

  /// Evaluates the newest checkpoint if it is new and due; `is_last`: also if it is not due, and as
  /// the last one. It cannot be deleted meanwhile.
  Sight look(bool is_last);

  /// Whether the checkpoint of max_steps is there.
  bool sees_max_steps() const;
  /// Step of the checkpoint that was evaluated last; -1 if none was.
  std::int64_t evaluated_step() const { return evaluated_step_; }
  bool is_at_max_steps() const { return max_steps_ && evaluated_step_ >= *max_steps_; }
  /// When a checkpoint was last seen that was not there before, or else when this was made.
  Clock::time_point last_news() const { return last_news_; }

 private:
  void log_left_out() const;

  CheckpointUse& use_;
  const Path model_dir_;
  const std::optional<std::int64_t> max_steps_;
  std::int64_t newest_step_ = -1;
  std::int64_t evaluated_step_ = -1;
  Clock::time_point last_news_ = Clock::now();
};

}  // namespace muster::internal
