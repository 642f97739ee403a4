#include "muster/orchestration/tuning/halving.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"

namespace muster::tuning {
namespace {

// Without a least number of steps.
constexpr std::size_t kUsualRungs = 4;

const TrialRun* find_run(std::span<const TrialRun> runs, std::size_t trial, std::size_t rung) {
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const TrialRun& run) {
    return run.trial == trial && run.rung == rung;
  });
  return found == runs.end() ? nullptr : &*found;
}

std::size_t count_trials(std::span<const TrialRun> runs) {
  std::size_t count = 0;
  for (const TrialRun& run : runs) count = std::max(count, run.trial + 1);
  return count;
}

// Trials of the best `count` of runs with a loss, without those that failed.
std::vector<std::size_t> best_trials(std::vector<TrialRun> runs, std::size_t count) {
  std::stable_sort(runs.begin(), runs.end(),
                   [](const TrialRun& a, const TrialRun& b) { return *a.loss < *b.loss; });
  std::vector<std::size_t> trials;
  for (const TrialRun& run : runs) {
    if (trials.size() < count && std::isfinite(*run.loss)) trials.push_back(run.trial);
  }
  return trials;
}

std::vector<TrialRun> ended_runs(std::span<const TrialRun> runs, std::size_t rung) {
  std::vector<TrialRun> ended;
  for (const TrialRun& run : runs) {
    if (run.rung == rung && run.loss) ended.push_back(run);
  }
  return ended;
}

// The best trial of the highest rung that has one which may continue. Of each rung, this many may.
template <typename MayGoOn>
std::optional<TrialRun> next_promotion(const HalvingPlan& plan, std::span<const TrialRun> runs,
                                       MayGoOn may_go_on) {
  for (std::size_t rung = plan.rungs.size() - 1; rung-- > 0;) {
    std::vector<TrialRun> ended = ended_runs(runs, rung);
    const std::size_t count = may_go_on(ended.size());
    for (const std::size_t trial : best_trials(std::move(ended), count)) {
      if (find_run(runs, trial, rung + 1) == nullptr) return TrialRun{trial, rung + 1, {}};
    }
  }
  return std::nullopt;
}

std::optional<TrialRun> next_of_asha(const HalvingPlan& plan, std::span<const TrialRun> runs) {
  const auto promotion =
      next_promotion(plan, runs, [&](std::size_t ended) { return ended / plan.reduction; });
  if (promotion) return promotion;
  const std::size_t trials = count_trials(runs);
  if (trials < plan.most_trials) return TrialRun{trials, 0, {}};
  // Few trials, many rungs: the best goes on to the end all the same.
  const bool awaits = std::any_of(runs.begin(), runs.end(),
                                  [](const TrialRun& run) { return !run.loss.has_value(); });
  const bool has_whole = !best_trials(ended_runs(runs, plan.rungs.size() - 1), 1).empty();
  if (awaits || has_whole) return std::nullopt;
  return next_promotion(plan, runs, [](std::size_t ended) { return ended; });
}

// The run that one bracket trains next: these trials, from this rung up.
std::optional<TrialRun> next_of_bracket(const HalvingPlan& plan, std::span<const TrialRun> runs,
                                        std::vector<std::size_t> trials, std::size_t rung) {
  for (; rung < plan.rungs.size(); ++rung) {
    std::vector<TrialRun> ended;
    for (const std::size_t trial : trials) {
      const TrialRun* const run = find_run(runs, trial, rung);
      if (run == nullptr) return TrialRun{trial, rung, {}};
      if (run->loss) ended.push_back(*run);
    }
    if (ended.size() < trials.size()) return std::nullopt;
    trials =
        best_trials(std::move(ended), std::max<std::size_t>(1, trials.size() / plan.reduction));
  }
  return std::nullopt;
}

// ceil((brackets) * reduction^halvings / (halvings + 1)), which makes all brackets cost the same.
std::size_t bracket_size(const HalvingPlan& plan, std::size_t halvings) {
  std::size_t power = 1;
  for (std::size_t i = 0; i < halvings; ++i) power *= plan.reduction;
  return (plan.rungs.size() * power + halvings) / (halvings + 1);
}

std::optional<TrialRun> next_of_hyperband(const HalvingPlan& plan, std::span<const TrialRun> runs) {
  std::size_t first_rung = 0;
  for (std::size_t begin = 0; begin < plan.most_trials;) {
    const std::size_t size =
        std::min(bracket_size(plan, plan.rungs.size() - 1 - first_rung), plan.most_trials - begin);
    std::vector<std::size_t> trials;
    for (std::size_t i = 0; i < size; ++i) trials.push_back(begin + i);
    if (const auto next = next_of_bracket(plan, runs, std::move(trials), first_rung)) return next;
    begin += size;
    first_rung = (first_rung + 1) % plan.rungs.size();
  }
  return std::nullopt;
}

}  // namespace

HalvingPlan make_halving_plan(const TrialStopping& stopping, std::int64_t max_steps,
                              std::size_t most_trials) {
  if (stopping.min_steps > max_steps) {
    throw InvalidArgument("trialStopping.minSteps is {}, more than the {} steps of a whole trial",
                          stopping.min_steps, max_steps);
  }
  HalvingPlan plan{.rule = stopping.rule,
                   .reduction = static_cast<std::size_t>(stopping.reduction),
                   .most_trials = most_trials};
  const std::size_t most_rungs = stopping.min_steps > 0 ? SIZE_MAX : kUsualRungs;
  std::int64_t steps = max_steps;
  while (plan.rungs.size() < most_rungs && steps >= std::max<std::int64_t>(1, stopping.min_steps)) {
    plan.rungs.insert(plan.rungs.begin(), steps);
    if (steps == 1) break;
    steps = (steps + stopping.reduction - 1) / stopping.reduction;
  }
  return plan;
}

std::optional<TrialRun> next_run(const HalvingPlan& plan, std::span<const TrialRun> runs) {
  return plan.rule == StoppingRule::kHyperband ? next_of_hyperband(plan, runs)
                                               : next_of_asha(plan, runs);
}

}  // namespace muster::tuning
