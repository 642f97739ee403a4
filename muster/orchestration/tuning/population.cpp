#include "muster/orchestration/tuning/population.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/orchestration/tuning/searchers_internal.h"

namespace muster::tuning {
namespace {

// The streams of random numbers for parents and perturbed values.
constexpr std::uint64_t kParentPart = 21;
constexpr std::uint64_t kPerturbPart = 22;
constexpr std::uint64_t kResamplePart = 23;

constexpr std::int64_t kLeastPopulation = 4;

double loss_of(const Observation& trial) {
  return trial.outcome == Observation::Outcome::kDone ? trial.loss
                                                      : std::numeric_limits<double>::infinity();
}

// The trials of a round, best first; of equal ones the first. Those that failed are last.
std::vector<std::size_t> ranked_round(const PopulationPlan& plan,
                                      std::span<const Observation> history, std::size_t round) {
  std::vector<std::size_t> trials(plan.size);
  std::iota(trials.begin(), trials.end(), round * plan.size);
  std::stable_sort(trials.begin(), trials.end(), [&](std::size_t a, std::size_t b) {
    return loss_of(history[a]) < loss_of(history[b]);
  });
  return trials;
}

std::size_t quantile_size(const PopulationPlan& plan) {
  const auto share =
      static_cast<std::size_t>(std::ceil(plan.how.quantile * static_cast<double>(plan.size)));
  return std::min(share, plan.size / 2);
}

bool is_inherited(const PopulationPlan& plan, const std::string& name) {
  const auto& names = plan.how.inherited_params;
  return std::find(names.begin(), names.end(), name) != names.end();
}

Point perturbed(const PopulationPlan& plan, const SearchSpace& space, std::uint64_t seed,
                Point point, std::size_t trial) {
  Random random(seed, kPerturbPart, trial);
  const Point fresh =
      space.from_uniform(random_point(space.size(), trial, derive_key(seed, kResamplePart)));
  for (std::size_t i = 0; i < point.size(); ++i) {
    const bool is_resampled = random.coin(plan.how.resample_probability);
    const double factor = random.coin() ? plan.how.perturb_factor : 2 - plan.how.perturb_factor;
    if (is_inherited(plan, space.parameters()[i].name) && !std::isnan(point[i])) continue;
    // A child that its parent's new value brings in has no value to perturb.
    point[i] = is_resampled || std::isnan(point[i]) ? fresh[i] : space.scaled(i, point[i], factor);
  }
  return space.snap(std::move(point));
}

}  // namespace

PopulationPlan make_population_plan(const HyperparameterSpec& spec, std::int64_t max_steps) {
  const std::int64_t size = spec.population->size > 0
                                ? spec.population->size
                                : std::max(spec.max_parallel_trials, kLeastPopulation);
  if (spec.max_trials % size != 0) {
    throw InvalidArgument(
        "maxTrials is {}, no multiple of the population of {}: every round trains all members; "
        "give maxTrials as members times rounds, or another population.size",
        spec.max_trials, size);
  }
  const std::int64_t rounds = spec.max_trials / size;
  if (rounds > max_steps) {
    throw InvalidArgument("{} trials of a population of {} are {} rounds, more than the {} steps",
                          spec.max_trials, size, rounds, max_steps);
  }
  PopulationPlan plan{.size = static_cast<std::size_t>(size), .how = *spec.population};
  for (std::int64_t round = 1; round <= rounds; ++round) {
    // Without an overflow where steps are many.
    plan.rounds.push_back(max_steps / rounds * round + max_steps % rounds * round / rounds);
  }
  return plan;
}

bool can_begin(const PopulationPlan& plan, std::span<const Observation> history,
               std::size_t trial) {
  if (trial >= plan.trials()) return false;
  const std::size_t round = trial / plan.size;
  if (round == 0) return true;
  if (history.size() < round * plan.size) return false;
  const auto before = history.subspan((round - 1) * plan.size, plan.size);
  const auto has = [&](Observation::Outcome outcome) {
    return std::any_of(before.begin(), before.end(),
                       [&](const Observation& one) { return one.outcome == outcome; });
  };
  return !has(Observation::Outcome::kRunning) && has(Observation::Outcome::kDone);
}

Inheritance inherit(const PopulationPlan& plan, const SearchSpace& space, std::uint64_t seed,
                    std::span<const Observation> history, std::size_t trial) {
  const std::size_t before = trial - plan.size;
  const auto ranked = ranked_round(plan, history, before / plan.size);
  const std::size_t exchanged = quantile_size(plan);
  const bool is_last = std::find(ranked.end() - static_cast<std::ptrdiff_t>(exchanged),
                                 ranked.end(), before) != ranked.end();
  const auto has_failed = [&](std::size_t one) {
    return history[one].outcome != Observation::Outcome::kDone;
  };
  // One that failed has no checkpoint to resume from, in whatever quantile it is.
  if (!is_last && !has_failed(before)) return {before, history[before].point};
  const auto done = static_cast<std::size_t>(std::count_if(
      ranked.begin(), ranked.end(), [&](std::size_t one) { return !has_failed(one); }));
  const std::size_t top = std::clamp<std::size_t>(exchanged, 1, done);
  const std::size_t parent = ranked[Random(seed, kParentPart, trial).below(top)];
  return {parent, perturbed(plan, space, seed, history[parent].point, trial)};
}

}  // namespace muster::tuning
