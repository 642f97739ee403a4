#pragma once

#include <optional>
#include <span>
#include <string>

#include "muster/data/features/batch.h"

namespace muster {

/// The first number of these batches, by replica, that is not finite: "the feature "petal" of
/// replica 1 is nan in row 3 of its batch, which is train.csv line 17". Empty where all are.
std::string first_not_finite(std::span<const std::optional<Batch>> batches);

}  // namespace muster
