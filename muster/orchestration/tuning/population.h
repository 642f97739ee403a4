#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/orchestration/tuning/hyperparameter_spec.h"
#include "muster/orchestration/tuning/search_space.h"
#include "muster/orchestration/tuning/searcher.h"

namespace muster::tuning {

/// Population-based training (Jaderberg et al. 2017): members train in rounds. After each, those of
/// the bottom quantile copy checkpoint and values of one of the top (exploit), whose values are
/// then perturbed (explore); the others continue. A trial is one member's round: trial n, from 0,
/// is member n % size in round n / size.
struct PopulationPlan {
  std::size_t size = 1;
  /// Steps to train up to, of each round, increasing.
  std::vector<std::int64_t> rounds{};
  PopulationTraining how{};

  std::size_t trials() const { return size * rounds.size(); }
};

/// With the steps of a whole training. Throws InvalidArgument where max_trials are no whole number
/// of rounds, or more rounds than steps.
PopulationPlan make_population_plan(const HyperparameterSpec& spec, std::int64_t max_steps);

/// Whether trial `trial` can be chosen from these: all of the round before must have ended, and one
/// of it with a result. Never true after the last round.
bool can_begin(const PopulationPlan& plan, std::span<const Observation> history, std::size_t trial);

/// Where a trial of a later round comes from.
struct Inheritance {
  /// The trial of the round before, from 0, with whose checkpoint it continues.
  std::size_t parent = 0;
  /// Its values: those of the parent, perturbed if that was another member.
  Point point{};
};

/// Inheritance of a trial that can_begin() in a round after the first. It is a function of the
/// results of the round before, the seed and the trial's number alone.
Inheritance inherit(const PopulationPlan& plan, const SearchSpace& space, std::uint64_t seed,
                    std::span<const Observation> history, std::size_t trial);

}  // namespace muster::tuning
