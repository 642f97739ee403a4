#pragma once

#include <vector>

#include "muster/orchestration/tuning/hyperparameter_spec.h"
#include "muster/orchestration/tuning/json_field_internal.h"

namespace muster::tuning {

/// The largest number up to which doubles represent every integer.
inline constexpr double kMostInteger = 9007199254740992.0;

/// Reads the list `params` with all children, parents before their children. Throws InvalidArgument
/// as parse_hyperparameters() does.
std::vector<ParameterSpec> read_parameters(const Field& list);

}  // namespace muster::tuning
