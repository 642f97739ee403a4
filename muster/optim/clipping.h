#pragma once

#include "muster/optim/variables.h"

namespace muster {

/// What a step does to gradients that are too large. Limits must be positive.
///
/// Norms are summed in double, whole variables in their order, so where variables live does not
/// change a bit. All change the gradients in place.

/// Every element into [-limit, limit].
void clip_by_value(Gradients& gradients, double limit);

/// Every variable's gradient is scaled down to this norm if it is longer; one that is not finite is
/// left alone, for whoever looks for NaN.
void clip_by_norm(const Variables& variables, Gradients& gradients, double limit);

/// All gradients are scaled by one factor if their norm together is longer. Returns that norm as it
/// was before; when it is not finite, gradients are left alone.
double clip_by_global_norm(const Variables& variables, Gradients& gradients, double limit);

/// The norm of all gradients together.
double global_norm(const Variables& variables, const Gradients& gradients);

}  // namespace muster
