#include "muster/orchestration/tuning/study.h"

#include <cmath>
#include <cstdint>

#include "muster/orchestration/tuning/goals.h"
#include "muster/orchestration/tuning/ranking.h"
#include "muster/orchestration/tuning/study_runner_internal.h"
#include "muster/orchestration/tuning/study_store_internal.h"

namespace muster::tuning {

const Trial* Study::best() const {
  const double sign = spec.goal == Goal::kMaximize ? 1 : -1;
  const Trial* best = nullptr;
  double least_violation = 0;
  std::int64_t most_steps = 0;
  for (const Trial& trial : trials) {
    const bool has_result =
        (trial.state == TrialState::kSucceeded || trial.state == TrialState::kPaused) &&
        trial.final_metric && std::isfinite(trial.final_metric->value);
    if (!has_result) continue;
    const double violation = violation_of(spec, trial);
    const std::int64_t steps = budget_of(trial);
    if (best != nullptr) {
      if (violation > least_violation) continue;
      const bool is_alike = violation == least_violation;
      if (is_alike && steps < most_steps) continue;
      if (is_alike && steps == most_steps &&
          sign * trial.final_metric->value <= sign * best->final_metric->value) {
        continue;
      }
    }
    best = &trial;
    least_violation = violation;
    most_steps = steps;
  }
  return best;
}

bool has_study(const Path& job_dir) { return StudyStore(job_dir).exists(); }

Study read_study(const Path& job_dir) {
  const StudyStore store(job_dir);
  return {.spec = store.spec(), .trials = store.trials()};
}

Study run_study(const StudyOptions& options) { return StudyRunner(options).run(); }

}  // namespace muster::tuning
