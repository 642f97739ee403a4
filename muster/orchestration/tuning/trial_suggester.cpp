#include "muster/base/error.h"
#include "muster/orchestration/tuning/goals.h"
#include "muster/orchestration/tuning/trial_suggester_internal.h"

namespace muster::tuning {

TrialSuggester::TrialSuggester(const HyperparameterSpec& spec, const SearchAlgorithms& algorithms,
                               std::uint64_t seed)
    : spec_(spec),
      space_(spec.params),
      seed_(seed),
      searcher_(algorithms.find(spec.algorithm).make(space_, seed)) {}

std::size_t TrialSuggester::observe_previous(const std::vector<Trial>& trials) {
  std::size_t skipped = 0;
  for (const Trial& trial : trials) {
    if (trial.state == TrialState::kRunning) continue;
    try {
      previous_.push_back({.point = space_.point_of(trial.values)});
      set_result(previous_.back(), loss_of(spec_.goal, trial.final_metric));
    } catch (const InvalidArgument&) {
      ++skipped;
    }
  }
  return skipped;
}

std::optional<Trial> TrialSuggester::suggest(const StudyHistory& history, std::size_t known) const {
  std::vector<Observation> seen = previous_;
  const auto own = observations_of(spec_.goal, space_, history, known);
  seen.insert(seen.end(), own.begin(), own.end());
  if (has_several_goals(spec_)) weigh_goals(seen, history, known);
  const auto points = searcher_->suggest(1, seen);
  if (points.empty()) return std::nullopt;
  Trial trial{.values = space_.values_of(points.front())};
  if (!spec_.steps_parameter.empty()) trial.parent = prefix_of(trial.values, history, known);
  return trial;
}

void TrialSuggester::weigh_goals(std::vector<Observation>& all, const StudyHistory& history,
                                 std::size_t known) const {
  std::vector<const Trial*> done;
  std::vector<Observation*> observations;
  for (std::size_t i = 0; i < known; ++i) {
    const std::size_t place = history.runs[i].trial;
    Observation& observation = all[previous_.size() + place];
    if (observation.outcome != Observation::Outcome::kDone) continue;
    done.push_back(&history.trials[place]);
    observations.push_back(&observation);
  }
  const auto losses = scalar_losses(spec_, done, seed_, history.trials.size());
  for (std::size_t i = 0; i < losses.size(); ++i) observations[i]->loss = losses[i];
}

// The trial with the most steps among those whose results are known and whose values are the same
// except for the steps, of which it has fewer.
std::optional<std::int64_t> TrialSuggester::prefix_of(const Values& values,
                                                      const StudyHistory& history,
                                                      std::size_t known) const {
  const auto steps_of = [&](const Values& of) { return std::stod(of.at(spec_.steps_parameter)); };
  const Trial* longest = nullptr;
  for (std::size_t i = 0; i < known; ++i) {
    const Trial& trial = history.trials[history.runs[i].trial];
    if (trial.state != TrialState::kSucceeded || trial.is_stopped_early) continue;
    Values same = trial.values;
    same[spec_.steps_parameter] = values.at(spec_.steps_parameter);
    if (same != values || steps_of(trial.values) >= steps_of(values)) continue;
    if (longest == nullptr || steps_of(trial.values) > steps_of(longest->values)) {
      longest = &trial;
    }
  }
  return longest == nullptr ? std::nullopt : std::optional(longest->id);
}

}  // namespace muster::tuning
