#include "muster/orchestration/tuning/ranking.h"

#include <algorithm>
#include <set>

#include "muster/orchestration/tuning/goals.h"

namespace muster::tuning {

std::int64_t budget_of(const Trial& trial) {
  std::int64_t budget = 0;
  for (const Rung& rung : trial.rungs) {
    if (rung.metric) budget = std::max(budget, rung.max_steps);
  }
  return budget;
}

std::vector<const Trial*> ranked(const Study& study) {
  std::vector<const Trial*> trials;
  trials.reserve(study.trials.size());
  for (const Trial& trial : study.trials) trials.push_back(&trial);
  std::set<std::int64_t> front;
  if (!study.spec.other_goals.empty()) {
    for (const Trial* trial : pareto_front(study.spec, study.trials)) front.insert(trial->id);
  }
  const double sign = study.spec.goal == Goal::kMaximize ? -1 : 1;
  const auto group = [&](const Trial& trial) {
    if (front.contains(trial.id)) return 0;
    if (trial.final_metric) return violation_of(study.spec, trial) > 0 ? 2 : 1;
    return trial.state == TrialState::kRunning ? 3 : 4;
  };
  std::stable_sort(trials.begin(), trials.end(), [&](const Trial* a, const Trial* b) {
    if (group(*a) != group(*b)) return group(*a) < group(*b);
    if (!a->final_metric) return false;
    if (budget_of(*a) != budget_of(*b)) return budget_of(*a) > budget_of(*b);
    return sign * a->final_metric->value < sign * b->final_metric->value;
  });
  return trials;
}

}  // namespace muster::tuning
