#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/torch_fwd.h"

namespace muster {

/// Freezes the parameters whose names in checkpoints match one of these patterns (matches_name()):
/// they get no gradient, no update and no optimizer slots, and count in no norm. Buffers, such as
/// the moving averages of batch norm, go on changing. Call it in the model factory, so that every
/// replica's model has it. Returns how many numbers are frozen. Throws InvalidArgument for a
/// pattern that no parameter matches, with the names there are, and for a sparse table: an
/// embedding column has `trainable` for that.
///
///   .model = [] {
///     auto model = std::make_shared<Classifier>();
///     muster::freeze(*model, {"backbone/*"});
///     return model;
///   }
std::int64_t freeze(torch::nn::Module& module, const std::vector<std::string>& patterns);

}  // namespace muster
