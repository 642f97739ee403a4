#include "muster/orchestration/tuning/trial_scheduler_internal.h"

namespace muster::tuning {

std::vector<BegunRun> TrialScheduler::runs_of(std::span<const Trial> trials) const {
  std::vector<BegunRun> runs;
  for (std::size_t place = 0; place < trials.size(); ++place) runs.push_back({.trial = place});
  return runs;
}

void TrialScheduler::begin(Trial& /*trial*/, std::size_t /*rung*/, std::int64_t /*number*/) const {}

void TrialScheduler::finish(Trial& /*trial*/) const {}

std::optional<StepLimit> TrialScheduler::step_limit(const Trial& /*trial*/) const {
  return std::nullopt;
}

bool TrialScheduler::will_pause(const Trial& /*trial*/) const { return false; }

std::unique_ptr<TrialScheduler> make_scheduler(const TrialSuggester& suggester,
                                               const std::vector<std::string>& command) {
  if (suggester.spec().population) return make_population_scheduler(suggester, command);
  if (suggester.spec().halving) return make_halving_scheduler(suggester, command);
  return make_plain_scheduler(suggester);
}

}  // namespace muster::tuning
