#pragma once

#include <cstdint>
#include <vector>

#include "muster/orchestration/tuning/study.h"

namespace muster::tuning {

/// The step that a trial's final metric was trained up to under successive halving: that of its
/// last rung with a metric. 0 of all other trials, which are trained alike.
std::int64_t budget_of(const Trial& trial);

/// All trials, best first. Metrics of different budgets say little of each other: trials are
/// compared with those of the same budget, and those of a larger one come before. Of several goals
/// the Pareto front comes first, trials outside of the constraints follow those inside, then those
/// that run, then those that failed. The pointers are into the study.
std::vector<const Trial*> ranked(const Study& study);

}  // namespace muster::tuning
