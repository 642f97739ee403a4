#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "muster/orchestration/tuning/search_space.h"
#include "muster/orchestration/tuning/searcher.h"
#include "muster/orchestration/tuning/trial.h"

namespace muster::tuning {

/// A stretch of training that was begun: a whole trial, or a trial's way up to a rung.
struct BegunRun {
  /// The place of the trial among all, from 0.
  std::size_t trial = 0;
  std::size_t rung = 0;
  /// The place in the trial's own list of rungs, under successive halving.
  std::size_t entry = 0;
};

/// The trials of a study by number, and their runs in the order in which they began.
struct StudyHistory {
  std::vector<Trial> trials{};
  std::vector<BegunRun> runs{};
};

/// The metric as a loss; infinite where there is nothing to compare.
double loss_of(Goal goal, const std::optional<Measurement>& metric);

/// The loss that a run ended with; nothing while it continues.
std::optional<double> loss_of(Goal goal, const StudyHistory& history, const BegunRun& run);

/// Turns a running observation into one with this loss, a failed one where it is infinite.
void set_result(Observation& observation, double loss);

/// All trials, with the results of the first `known` runs, all of which have ended.
std::vector<Observation> observations_of(Goal goal, const SearchSpace& space,
                                         const StudyHistory& history, std::size_t known);

}  // namespace muster::tuning
