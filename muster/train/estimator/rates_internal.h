#pragma once

#include <functional>

#include "muster/nn/optim/optimizer.h"

namespace muster::internal {

/// The same optimizers with what `change` makes of the learning rate of each.
OptimizersByPrefix with_rates(const OptimizersByPrefix& optimizers,
                              const std::function<LearningRate(const LearningRate&)>& change);

}  // namespace muster::internal
