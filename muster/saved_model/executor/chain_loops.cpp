// One operation a loop: each result is rounded once, as libtorch rounds it.
#include "muster/saved_model/executor/chain_loops_internal.h"

namespace muster::executor {
namespace {

template <typename Compute>
void each(ChainOperand left, ChainOperand right, float* __restrict out, std::size_t count,
          const Compute& compute) {
  const float* __restrict a = left.values;
  const float* __restrict b = right.values;
  if (left.is_single && right.is_single) {
    const float value = compute(*a, *b);
    for (std::size_t i = 0; i < count; ++i) out[i] = value;
  } else if (left.is_single) {
    const float value = *a;
    for (std::size_t i = 0; i < count; ++i) out[i] = compute(value, b[i]);
  } else if (right.is_single) {
    const float value = *b;
    for (std::size_t i = 0; i < count; ++i) out[i] = compute(a[i], value);
  } else {
    for (std::size_t i = 0; i < count; ++i) out[i] = compute(a[i], b[i]);
  }
}

}  // namespace

void apply(ChainOp op, ChainOperand left, ChainOperand right, float* out, std::size_t count) {
  switch (op) {
    case ChainOp::kAdd:
      return each(left, right, out, count, [](float a, float b) { return a + b; });
    case ChainOp::kSub:
      return each(left, right, out, count, [](float a, float b) { return a - b; });
    case ChainOp::kMul:
      return each(left, right, out, count, [](float a, float b) { return a * b; });
    case ChainOp::kDiv:
      return each(left, right, out, count, [](float a, float b) { return a / b; });
    case ChainOp::kNeg:
      return each(left, left, out, count, [](float a, float) { return -a; });
  }
}

}  // namespace muster::executor
