#include <cmath>
#include <limits>

#include "muster/orchestration/tuning/study_history_internal.h"

namespace muster::tuning {

double loss_of(Goal goal, const std::optional<Measurement>& metric) {
  if (!metric || !std::isfinite(metric->value)) return std::numeric_limits<double>::infinity();
  return goal == Goal::kMaximize ? -metric->value : metric->value;
}

std::optional<double> loss_of(Goal goal, const StudyHistory& history, const BegunRun& run) {
  const Trial& trial = history.trials[run.trial];
  const auto& metric = trial.rungs.empty() ? trial.final_metric : trial.rungs[run.entry].metric;
  if (!metric && trial.state == TrialState::kRunning) return std::nullopt;
  return loss_of(goal, metric);
}

void set_result(Observation& observation, double loss) {
  const bool is_done = std::isfinite(loss);
  observation.outcome = is_done ? Observation::Outcome::kDone : Observation::Outcome::kFailed;
  observation.loss = is_done ? loss : 0;
}

std::vector<Observation> observations_of(Goal goal, const SearchSpace& space,
                                         const StudyHistory& history, std::size_t known) {
  std::vector<Observation> all;
  all.reserve(history.trials.size());
  for (const Trial& trial : history.trials) all.push_back({.point = space.point_of(trial.values)});
  for (std::size_t i = 0; i < known; ++i) {
    const BegunRun& run = history.runs[i];
    set_result(all[run.trial], *loss_of(goal, history, run));
  }
  return all;
}

}  // namespace muster::tuning
