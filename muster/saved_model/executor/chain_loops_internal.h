#pragma once

#include <cstddef>

namespace muster::executor {

enum class ChainOp { kAdd, kSub, kMul, kDiv, kNeg };

/// An array, or one number that stands for all elements of one.
struct ChainOperand {
  const float* values = nullptr;
  bool is_single = false;
};

/// Computes `count` elements. kNeg takes the left operand alone. `out` lies apart from both.
void apply(ChainOp op, ChainOperand left, ChainOperand right, float* out, std::size_t count);

}  // namespace muster::executor
