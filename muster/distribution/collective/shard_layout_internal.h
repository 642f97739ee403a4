#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/distribution/membership/links_internal.h"
#include "muster/nn/optim/tensor_part.h"
#include "muster/nn/optim/variables.h"

namespace muster::internal {

/// Which task has which elements of something flat. A function of what every task knows.
class ShardLayout {
 public:
  /// Which task updates which elements of the dense variables: ranges as even as the cuts allow, in
  /// this order of the ranks (Halving::order). A variable is cut along its first dimension, where a
  /// cache line begins.
  ShardLayout(const Variables& variables, std::span<const std::size_t> order);
  /// Ranges of these sizes, by rank.
  ShardLayout(std::span<const std::int64_t> sizes, std::span<const std::size_t> order);

  /// Elements of all, padding included.
  std::int64_t size() const { return cuts_.back(); }
  std::size_t tasks() const { return places_.size(); }
  FlatRange of(std::size_t rank) const { return at_places({places_[rank], places_[rank] + 1}); }
  /// The range of ranks whose ranges follow each other.
  FlatRange of(const RankRange& ranks) const {
    return at_places({places_[ranks.first], places_[ranks.last - 1] + 1});
  }
  /// By places in the order.
  FlatRange at_places(const RankRange& places) const {
    return {cuts_[places.first], cuts_[places.last]};
  }

 private:
  /// By rank, its place in the order.
  std::vector<std::size_t> places_;
  /// Where each place's range begins, and the end of all.
  std::vector<std::int64_t> cuts_;
};

}  // namespace muster::internal
