#pragma once

#include <span>
#include <vector>

#include "muster/orchestration/tuning/hyperparameter_spec.h"
#include "muster/orchestration/tuning/trial.h"

namespace muster::tuning {

/// Cloud ML Engine's rule for stopping a trial early: whether its best value so far is strictly
/// worse than the median, over the trials that are complete, of the average of what they measured
/// up to the same step. Measurements are in the order of their steps.
bool stops_by_median(Goal goal, std::span<const Measurement> running,
                     std::span<const std::vector<Measurement>> completed);

}  // namespace muster::tuning
