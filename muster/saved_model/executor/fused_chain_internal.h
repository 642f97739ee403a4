#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/saved_model/executor/chain_loops_internal.h"
#include "muster/saved_model/executor/fused_layer_internal.h"

namespace muster::executor {

/// Element-wise nodes on floats, each of which continues with what the one before gives.
struct FusedChain {
  std::vector<FusedNode> nodes{};
  /// Operation of each node.
  std::vector<ChainOp> ops{};

  /// Computes `count` elements of the last node. `inputs` are those of the fused step, of as many
  /// elements or of one.
  void compute(std::span<const ChainOperand> inputs, std::int64_t count, float* out) const;
};

}  // namespace muster::executor
