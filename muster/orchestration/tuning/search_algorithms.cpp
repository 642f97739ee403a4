#include "muster/orchestration/tuning/search_algorithms.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/printable.h"

namespace muster::tuning {
namespace {

bool goes_by(const SearchAlgorithm& algorithm, std::string_view name) {
  return std::find(algorithm.names.begin(), algorithm.names.end(), name) != algorithm.names.end();
}

}  // namespace

/// In the source that CMake writes from the list of algorithms.
std::vector<SearchAlgorithm> built_in_search_algorithms();

const SearchAlgorithms& SearchAlgorithms::built_in() {
  static const SearchAlgorithms table = [] {
    SearchAlgorithms algorithms;
    for (SearchAlgorithm& algorithm : built_in_search_algorithms()) {
      algorithms.add(std::move(algorithm));
    }
    return algorithms;
  }();
  return table;
}

void SearchAlgorithms::add(SearchAlgorithm algorithm) {
  if (algorithm.names.empty() || !algorithm.make) {
    throw InvalidArgument(
        "a search algorithm needs a name, and a function that makes its searcher");
  }
  for (const std::string& name : algorithm.names) {
    if (has(name)) throw InvalidArgument("duplicate search algorithm {}", printable(name));
  }
  all_.push_back(std::move(algorithm));
}

bool SearchAlgorithms::has(std::string_view name) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const SearchAlgorithm& one) { return goes_by(one, name); });
}

const SearchAlgorithm& SearchAlgorithms::find(std::string_view name) const {
  for (const SearchAlgorithm& one : all_) {
    if (goes_by(one, name)) return one;
  }
  throw InvalidArgument("unknown search algorithm {}: there are {}", printable(name),
                        fmt::join(names(), ", "));
}

std::vector<std::string> SearchAlgorithms::names() const {
  std::vector<std::string> names;
  for (const SearchAlgorithm& one : all_) {
    names.insert(names.end(), one.names.begin(), one.names.end());
  }
  return names;
}

std::unique_ptr<Searcher> make_searcher(std::string_view algorithm, SearchSpace space,
                                        std::uint64_t seed) {
  return SearchAlgorithms::built_in().find(algorithm).make(std::move(space), seed);
}

}  // namespace muster::tuning
