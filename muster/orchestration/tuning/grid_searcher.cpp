#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/orchestration/tuning/search_algorithms.h"

namespace muster::tuning {
namespace {

// Goes through the values as through the digits of a number, the last parameter fastest. The
// numbers of trials count the points of the grid in which no inactive child has another value than
// its first.
class GridSearcher : public Searcher {
 public:
  explicit GridSearcher(SearchSpace space) : space_(std::move(space)) {}

  std::vector<Point> suggest(std::size_t count,
                             std::span<const Observation> history) const override {
    std::vector<Point> points;
    std::vector<std::uint64_t> digits(space_.size(), 0);
    bool is_left = true;
    for (std::size_t number = 0; is_left && points.size() < count; ++number) {
      if (number >= history.size()) points.push_back(point_at(digits));
      is_left = advance(digits);
    }
    return points;
  }

 private:
  Point point_at(const std::vector<std::uint64_t>& digits) const {
    Point point(space_.size());
    for (std::size_t i = 0; i < point.size(); ++i) {
      point[i] = space_.coordinate_of_choice(i, digits[i]);
    }
    return space_.snap(std::move(point));
  }

  bool advance(std::vector<std::uint64_t>& digits) const {
    const Point now = point_at(digits);
    for (std::size_t i = digits.size(); i-- > 0;) {
      if (!std::isnan(now[i]) && digits[i] + 1 < space_.choices(i)) {
        ++digits[i];
        return true;
      }
      digits[i] = 0;
    }
    return false;
  }

  const SearchSpace space_;
};

void check_grid(const HyperparameterSpec& spec) {
  for (const ParameterSpec& parameter : spec.params) {
    if (parameter.type == ParameterType::kDouble) {
      throw InvalidArgument("parameter {}: GRID_SEARCH goes over no DOUBLE; make it DISCRETE",
                            parameter.name);
    }
  }
}

}  // namespace

SearchAlgorithm grid_search_algorithm() {
  return {.names = {"GRID_SEARCH"},
          .make = [](SearchSpace space,
                     std::uint64_t) { return std::make_unique<GridSearcher>(std::move(space)); },
          .check = check_grid};
}

}  // namespace muster::tuning
