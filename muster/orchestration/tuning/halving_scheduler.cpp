#include <algorithm>
#include <map>

#include "muster/base/error.h"
#include "muster/orchestration/tuning/trial_command_internal.h"
#include "muster/orchestration/tuning/trial_scheduler_internal.h"

namespace muster::tuning {
namespace {

HalvingPlan plan_of(const HyperparameterSpec& spec, const std::vector<std::string>& command) {
  const auto steps = whole_steps(command, spec.halving->steps_flag, "trialStopping");
  return make_halving_plan(*spec.halving, steps, static_cast<std::size_t>(spec.max_trials));
}

class HalvingScheduler final : public TrialScheduler {
 public:
  HalvingScheduler(const TrialSuggester& suggester, const std::vector<std::string>& command)
      : suggester_(suggester), plan_(plan_of(suggester.spec(), command)) {}

  std::vector<BegunRun> runs_of(std::span<const Trial> trials) const override {
    std::map<std::int64_t, BegunRun> by_number;
    for (std::size_t place = 0; place < trials.size(); ++place) {
      const auto& rungs = trials[place].rungs;
      for (std::size_t entry = 0; entry < rungs.size(); ++entry) {
        by_number[rungs[entry].run] = {place, rung_of(rungs[entry].max_steps), entry};
      }
    }
    std::vector<BegunRun> runs;
    runs.reserve(by_number.size());
    for (const auto& [number, run] : by_number) runs.push_back(run);
    return runs;
  }

  std::optional<TrialRun> next(const StudyHistory& history, std::size_t known) const override {
    std::vector<TrialRun> seen;
    seen.reserve(history.runs.size());
    for (const BegunRun& run : history.runs) {
      seen.push_back({.trial = run.trial, .rung = run.rung});
      if (seen.size() <= known) seen.back().loss = loss_of(suggester_.spec().goal, history, run);
    }
    return next_run(plan_, seen);
  }

  std::optional<Trial> new_trial(const StudyHistory& history, std::size_t known) override {
    auto trial = suggester_.suggest(history, known);
    if (!trial) plan_.most_trials = history.trials.size();
    return trial;
  }

  void begin(Trial& trial, std::size_t rung, std::int64_t number) const override {
    trial.rungs.push_back({.run = number, .max_steps = plan_.rungs[rung]});
  }

  void finish(Trial& trial) const override {
    trial.rungs.back().metric = trial.final_metric;
    if (will_pause(trial)) trial.state = TrialState::kPaused;
  }

  std::optional<StepLimit> step_limit(const Trial& trial) const override {
    return StepLimit{suggester_.spec().halving->steps_flag, trial.rungs.back().max_steps};
  }

  bool will_pause(const Trial& trial) const override {
    return trial.rungs.back().max_steps < plan_.rungs.back();
  }

 private:
  std::size_t rung_of(std::int64_t max_steps) const {
    const auto found = std::find(plan_.rungs.begin(), plan_.rungs.end(), max_steps);
    if (found == plan_.rungs.end()) {
      throw DataLoss("no rung of this study has {} steps", max_steps);
    }
    return static_cast<std::size_t>(found - plan_.rungs.begin());
  }

  const TrialSuggester& suggester_;
  HalvingPlan plan_;
};

}  // namespace

std::unique_ptr<TrialScheduler> make_halving_scheduler(const TrialSuggester& suggester,
                                                       const std::vector<std::string>& command) {
  return std::make_unique<HalvingScheduler>(suggester, command);
}

}  // namespace muster::tuning
