#include <utility>

#include "muster/orchestration/tuning/search_algorithms.h"
#include "muster/orchestration/tuning/searchers_internal.h"

namespace muster::tuning {
namespace {

class QuasiRandomSearcher : public Searcher {
 public:
  QuasiRandomSearcher(SearchSpace space, std::uint64_t seed)
      : space_(std::move(space)), seed_(seed) {}

  std::vector<Point> suggest(std::size_t count,
                             std::span<const Observation> history) const override {
    return one_by_one(count, history, [&](std::span<const Observation> known) {
      return space_.from_uniform(halton_point(space_.size(), known.size(), seed_));
    });
  }

 private:
  const SearchSpace space_;
  const std::uint64_t seed_;
};

}  // namespace

SearchAlgorithm quasi_random_search_algorithm() {
  return {.names = {"QUASI_RANDOM_SEARCH"}, .make = [](SearchSpace space, std::uint64_t seed) {
            return std::make_unique<QuasiRandomSearcher>(std::move(space), seed);
          }};
}

}  // namespace muster::tuning
