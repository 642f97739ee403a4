#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/orchestration/tuning/hyperparameter_spec.h"
#include "muster/orchestration/tuning/searcher.h"

namespace muster::tuning {

/// A search algorithm that studies can name.
struct SearchAlgorithm {
  /// The values of the field `algorithm` that select it. The first is the one that is shown.
  std::vector<std::string> names{};
  /// Makes the searcher of one study.
  std::function<std::unique_ptr<Searcher>(SearchSpace space, std::uint64_t seed)> make{};
  /// Throws InvalidArgument for a specification that it cannot search. Empty: it can search any.
  std::function<void(const HyperparameterSpec& spec)> check{};
};

/// A table of search algorithms by name. StudyOptions take one, so that a program can add its own:
///
///   tuning::StudyOptions options;
///   options.algorithms.add({.names = {"NELDER_MEAD"}, .make = make_nelder_mead});
class SearchAlgorithms {
 public:
  /// The algorithms of muster: a file each, listed in CMakeLists.txt.
  static const SearchAlgorithms& built_in();

  /// Throws InvalidArgument for one without a name or `make`, and for a name that is taken.
  void add(SearchAlgorithm algorithm);
  bool has(std::string_view name) const;
  /// Throws InvalidArgument, listing the names, for an unknown one.
  const SearchAlgorithm& find(std::string_view name) const;
  /// All names, in the order in which they were added.
  std::vector<std::string> names() const;
  const std::vector<SearchAlgorithm>& all() const { return all_; }

 private:
  std::vector<SearchAlgorithm> all_;
};

/// The searcher of a built-in algorithm.
std::unique_ptr<Searcher> make_searcher(std::string_view algorithm, SearchSpace space,
                                        std::uint64_t seed);

}  // namespace muster::tuning
