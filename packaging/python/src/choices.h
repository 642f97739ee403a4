#pragma once

#include <string_view>

#include "muster/base/error.h"
#include "muster/nn/model/head.h"

namespace muster::python {

/// "sum", or "mean": the sum over the size of the batch. Throws InvalidArgument for another word.
inline Reduction reduction_named(std::string_view name) {
  if (name == "sum") return Reduction::kSum;
  if (name == "mean") return Reduction::kSumOverBatchSize;
  throw InvalidArgument("loss_reduction must be sum or mean: {}", name);
}

}  // namespace muster::python
