#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "muster/orchestration/tuning/hyperparameter_spec.h"
#include "muster/orchestration/tuning/search_algorithms.h"
#include "muster/orchestration/tuning/search_space.h"
#include "muster/orchestration/tuning/study_history_internal.h"

namespace muster::tuning {

/// Chooses the values of new trials by the search algorithm of a study.
class TrialSuggester {
 public:
  /// `spec` must outlive it.
  TrialSuggester(const HyperparameterSpec& spec, const SearchAlgorithms& algorithms,
                 std::uint64_t seed);

  const HyperparameterSpec& spec() const { return spec_; }
  const SearchSpace& space() const { return space_; }
  std::uint64_t seed() const { return seed_; }

  /// Takes the trials of an earlier study as observations. Returns the number of those outside of
  /// this space, which are skipped.
  std::size_t observe_previous(const std::vector<Trial>& trials);
  /// The number of trials of an earlier study that are observed.
  std::size_t previous() const { return previous_.size(); }

  /// The next trial's values, and the trial that it continues (stepsParameter). Knows the results
  /// of the first `known` runs. Nothing where the searcher has no more points.
  std::optional<Trial> suggest(const StudyHistory& history, std::size_t known) const;

 private:
  /// Replaces the losses of trials that are done by those of all goals and constraints.
  void weigh_goals(std::vector<Observation>& observations, const StudyHistory& history,
                   std::size_t known) const;
  std::optional<std::int64_t> prefix_of(const Values& values, const StudyHistory& history,
                                        std::size_t known) const;

  const HyperparameterSpec& spec_;
  const SearchSpace space_;
  const std::uint64_t seed_;
  const std::unique_ptr<Searcher> searcher_;
  std::vector<Observation> previous_;
};

}  // namespace muster::tuning
