#pragma once

#include <cstdint>
#include <optional>

#include "muster/train/engine/train_options.h"

namespace muster {

/// How far a run of training is: its step, the step at which it ends, and the one that is saved.
/// Belongs to the session; what is trained moves it.
class RunProgress {
 public:
  explicit RunProgress(const TrainOptions& options)
      : steps_(options.steps), max_steps_(options.max_steps), last_step_(options.max_steps) {}

  /// Updates made so far.
  std::int64_t step() const { return step_; }
  /// Updates made since begin().
  std::int64_t steps_made() const { return step_ - first_step_; }
  /// The values are now those of a checkpoint.
  void resume_at(std::int64_t step) { step_ = saved_step_ = step; }
  void advance() { ++step_; }
  /// The values are now those of another process of the run.
  void jump_to(std::int64_t step) { step_ = step; }

  /// The step at which the run ends; nothing: with the input.
  std::optional<std::int64_t> last_step() const { return last_step_; }
  /// The same by this process's options, if the run began at `from`.
  std::optional<std::int64_t> last_step_from(std::int64_t from) const {
    return steps_ ? from + *steps_ : max_steps_;
  }
  /// Whether the options name the last step, and not a number of steps.
  bool names_last_step() const { return max_steps_.has_value(); }
  /// In a cluster the chief says at which step the run ends, if at any.
  void end_at(std::optional<std::int64_t> last_step) {
    last_step_ = last_step;
    is_end_given_ = true;
  }
  /// The run begins at the step that it is at, and ends at `end_of_learning` at the latest.
  void begin(std::optional<std::int64_t> end_of_learning);
  /// Whether the last step is made.
  bool done() const { return last_step_ && step_ >= *last_step_; }

  void mark_saved() { saved_step_ = step_; }
  bool saved_any() const { return saved_step_ >= 0; }
  /// Whether this process knows a checkpoint of the step that it is at.
  bool is_saved() const { return saved_step_ == step_; }

 private:
  const std::optional<std::int64_t> steps_;
  const std::optional<std::int64_t> max_steps_;
  std::int64_t step_ = 0;
  std::int64_t first_step_ = 0;
  std::optional<std::int64_t> last_step_;
  bool is_end_given_ = false;
  std::int64_t saved_step_ = -1;
};

}  // namespace muster
