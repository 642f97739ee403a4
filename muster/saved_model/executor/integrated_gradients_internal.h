#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "muster/saved_model/executor/explanation.h"
#include "muster/saved_model/executor/gradient_path_internal.h"

namespace muster::executor {

/// Places in [0, 1] with their weights, which sum to 1: polynomials of degree 2 * count - 1 are
/// integrated exactly (Gauss and Legendre).
std::vector<std::pair<double, double>> quadrature(std::int64_t count);

/// The part of each leaf of a path in the output: its gradients along the path, times how far it
/// goes; leaves of one feature together. Throws InvalidArgument for options that do not fit,
/// FailedPrecondition where an output or a gradient is not finite.
Explanation integrate_gradients(GradientPath& path, const ExplainOptions& options);

}  // namespace muster::executor
