#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "muster/run/checkpoint_follower_internal.h"
#include "muster/run/train_and_evaluate.h"

namespace muster::internal {

struct FollowOptions {
  std::chrono::seconds start_delay{0};
  std::optional<std::int64_t> max_steps{};
  /// Asked after each evaluation, unless that was the last; may be empty.
  std::function<bool()> goes_on{};
};

/// Follows the checkpoints that others write to the configuration's folder, until the run has
/// ended, those of max_steps are evaluated, or `goes_on` says no.
void follow_training(const RunConfig& config, CheckpointUse& use, const FollowOptions& options);

/// Runs a task of type evaluator. `goes_on` is called with each evaluation's result. See
/// train_and_evaluate().
TrainAndEvaluateResult evaluate_training(
    Estimator& estimator, const TrainSpec& train_spec, const EvalSpec& eval_spec,
    const std::function<bool(const EvaluationResult&)>& goes_on = {});

}  // namespace muster::internal
