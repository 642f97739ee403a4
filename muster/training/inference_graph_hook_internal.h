#pragma once

#include "muster/estimator/estimator.h"
#include "muster/estimator/specs.h"

namespace muster::internal {

/// The GraphHook of a training with evaluations, which must outlive it as the estimator must. The
/// ways in are those of the first exporter; without one the raw features of the model's columns, or
/// tensors as the evaluation's first batch has them.
HookPtr make_graph_hook(const Estimator& estimator, const EvalSpec& spec);

}  // namespace muster::internal
