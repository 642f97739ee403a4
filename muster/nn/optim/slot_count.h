#pragma once

#include <cstddef>
#include <string_view>

#include "muster/nn/optim/optimizer.h"

namespace muster {

/// How many slots the optimizer of a variable of this name keeps of it, each of the variable's
/// size; 0 where no optimizer is for it.
std::size_t slot_count(const OptimizersByPrefix& optimizers, std::string_view variable);

}  // namespace muster
