// The members of a population before the first round. What follows them is inherited: population.h.
#include <utility>

#include "muster/orchestration/tuning/search_algorithms.h"

namespace muster::tuning {

SearchAlgorithm population_search_algorithm() {
  return {.names = {kPopulationBasedTraining}, .make = [](SearchSpace space, std::uint64_t seed) {
            return make_searcher("QUASI_RANDOM_SEARCH", std::move(space), seed);
          }};
}

}  // namespace muster::tuning
