#include "muster/base/error.h"
#include "muster/orchestration/tuning/population.h"
#include "muster/orchestration/tuning/trial_command_internal.h"
#include "muster/orchestration/tuning/trial_scheduler_internal.h"

namespace muster::tuning {
namespace {

class PopulationScheduler final : public TrialScheduler {
 public:
  PopulationScheduler(const TrialSuggester& suggester, const std::vector<std::string>& command)
      : suggester_(suggester),
        plan_(make_population_plan(
            suggester.spec(),
            whole_steps(command, suggester.spec().population->steps_flag, "population"))) {}

  std::optional<TrialRun> next(const StudyHistory& history, std::size_t known) const override {
    const std::size_t trial = history.trials.size();
    if (!can_begin(plan_, observations(history, known), trial)) return std::nullopt;
    return TrialRun{.trial = trial};
  }

  std::optional<Trial> new_trial(const StudyHistory& history, std::size_t known) override {
    const std::size_t number = history.trials.size();
    auto trial = number < plan_.size ? suggester_.suggest(history, known)
                                     : std::optional(inherited(history, known));
    if (!trial) throw Internal("the first round of a population has no point for trial {}", number);
    trial->max_steps = plan_.rounds[number / plan_.size];
    return trial;
  }

  std::optional<StepLimit> step_limit(const Trial& trial) const override {
    return StepLimit{suggester_.spec().population->steps_flag, trial.max_steps};
  }

  bool will_pause(const Trial& trial) const override {
    return trial.max_steps < plan_.rounds.back();
  }

 private:
  std::vector<Observation> observations(const StudyHistory& history, std::size_t known) const {
    return observations_of(suggester_.spec().goal, suggester_.space(), history, known);
  }

  Trial inherited(const StudyHistory& history, std::size_t known) const {
    const auto& trials = history.trials;
    const Inheritance from = inherit(plan_, suggester_.space(), suggester_.seed(),
                                     observations(history, known), trials.size());
    // Those of a parent that goes on itself are the same texts, whatever numbers round to.
    const bool goes_on = from.parent + plan_.size == trials.size();
    return {
        .values = goes_on ? trials[from.parent].values : suggester_.space().values_of(from.point),
        .parent = trials[from.parent].id};
  }

  const TrialSuggester& suggester_;
  const PopulationPlan plan_;
};

}  // namespace

std::unique_ptr<TrialScheduler> make_population_scheduler(const TrialSuggester& suggester,
                                                          const std::vector<std::string>& command) {
  return std::make_unique<PopulationScheduler>(suggester, command);
}

}  // namespace muster::tuning
