#pragma once

#include <string>

#include "muster/base/torch_fwd.h"

namespace muster {

/// The variables of a module as a table: name in checkpoints, shape, number of values and bytes,
/// with a '-' where a variable is not trained; and the sums. For people.
std::string model_summary(const torch::nn::Module& module);

}  // namespace muster
