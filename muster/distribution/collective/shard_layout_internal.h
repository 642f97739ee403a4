#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/distribution/membership/links_internal.h"
#include "muster/nn/optim/tensor_part.h"
#include "muster/nn/optim/variables.h"

namespace muster::internal {

/// Which task updates which elements of the dense variables: neighbouring ranks have neighbouring
/// ranges of the flat values, as even as the cuts allow. A variable is cut along its first
/// dimension, where a cache line begins. A function of the variables and the number of tasks alone,
/// so every task knows it.
class ShardLayout {
 public:
  ShardLayout(const Variables& variables, std::size_t tasks);

  /// Elements of all dense variables, padding included.
  std::int64_t size() const { return cuts_.back(); }
  FlatRange of(std::size_t rank) const { return {cuts_[rank], cuts_[rank + 1]}; }
  FlatRange of(const RankRange& ranks) const { return {cuts_[ranks.first], cuts_[ranks.last]}; }

 private:
  /// Where each rank's range begins, and the end of all.
  std::vector<std::int64_t> cuts_;
};

}  // namespace muster::internal
