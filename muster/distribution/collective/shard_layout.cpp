#include "muster/distribution/collective/shard_layout_internal.h"

#include <algorithm>
#include <numeric>

namespace muster::internal {
namespace {

// Whole rows and whole cache lines.
std::int64_t unit_of(const Variable& variable) {
  const std::int64_t rows = variable.value.dim() > 0 ? variable.value.size(0) : 1;
  return std::lcm(variable.value.numel() / rows, kVariableAlignment);
}

// The place nearest to `wanted` at which this variable may be cut, its beginning and that of the
// next one among them.
std::int64_t nearest_cut(const Variable& variable, std::int64_t wanted) {
  const std::int64_t lines = (variable.value.numel() + kVariableAlignment - 1) / kVariableAlignment;
  const std::int64_t unit = variable.spec.whole ? lines * kVariableAlignment
                                                : std::max<std::int64_t>(1, unit_of(variable));
  const std::int64_t below = variable.offset + (wanted - variable.offset) / unit * unit;
  const std::int64_t above = std::min(variable.offset + lines * kVariableAlignment, below + unit);
  return wanted - below <= above - wanted ? below : above;
}

std::vector<std::size_t> places_in(std::span<const std::size_t> order) {
  std::vector<std::size_t> places(order.size());
  for (std::size_t place = 0; place < order.size(); ++place) places[order[place]] = place;
  return places;
}

}  // namespace

ShardLayout::ShardLayout(const Variables& variables, std::span<const std::size_t> order)
    : places_(places_in(order)) {
  const std::int64_t size = variables.flat().numel();
  const auto count = static_cast<std::int64_t>(order.size());
  cuts_.push_back(0);
  for (std::int64_t place = 1; place < count; ++place) {
    const std::int64_t wanted = size * place / count;
    std::int64_t cut = 0;
    for (const Variable& variable : variables.all()) {
      const bool is_before = variable.dense() && variable.offset <= wanted;
      if (is_before && variable.value.numel() > 0) cut = nearest_cut(variable, wanted);
    }
    cuts_.push_back(std::max(cuts_.back(), cut));
  }
  cuts_.push_back(size);
}

ShardLayout::ShardLayout(std::span<const std::int64_t> sizes, std::span<const std::size_t> order)
    : places_(places_in(order)) {
  cuts_.push_back(0);
  for (const std::size_t rank : order) cuts_.push_back(cuts_.back() + sizes[rank]);
}

}  // namespace muster::internal
