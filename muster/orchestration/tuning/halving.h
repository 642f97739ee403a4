#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "muster/orchestration/tuning/hyperparameter_spec.h"

namespace muster::tuning {

/// Successive halving: trials train up to a rung and pause; the best of a rung continue to the
/// next.
struct HalvingPlan {
  StoppingRule rule = StoppingRule::kAsha;
  /// Steps to train up to, increasing; the last are those of a whole trial. Never empty.
  std::vector<std::int64_t> rungs{};
  std::size_t reduction = 3;
  std::size_t most_trials = 1;
};

/// With the steps of a whole trial. Throws InvalidArgument where min_steps are more than those.
HalvingPlan make_halving_plan(const TrialStopping& stopping, std::int64_t max_steps,
                              std::size_t most_trials);

/// A stretch of a trial's training: from the rung before up to this one.
struct TrialRun {
  /// From 0.
  std::size_t trial = 0;
  std::size_t rung = 0;
  /// Value to minimise; infinite if the run failed, nothing while it is not known.
  std::optional<double> loss{};
};

/// The run that a free slot trains next: a trial that continues, or, with the first number that no
/// trial has, a new one. Nothing while results have to be awaited, and at the end. It is a function
/// of the runs so far, in the order in which they began, alone.
///
/// ASHA (Li et al. 2018): the highest rung in which one of the best 1/reduction was not promoted
/// yet; else a new trial. Never waits while there are new trials. Where so few trials are asked for
/// that none would come to the last rung, the best goes on to it in the end.
///
/// HYPERBAND (Li et al. 2016): brackets in turn, from the one with the most trials and fewest
/// steps; a rung's best 1/reduction, and one at least, continue when all of it has ended.
std::optional<TrialRun> next_run(const HalvingPlan& plan, std::span<const TrialRun> runs);

}  // namespace muster::tuning
