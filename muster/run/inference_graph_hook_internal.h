#pragma once

#include <optional>

#include "muster/data/features/batch.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/specs.h"

namespace muster::internal {

/// The GraphHook of a training with evaluations, which must outlive it as the estimator must. The
/// ways in are those of the first exporter; without one the raw features of the model's columns, or
/// tensors as the evaluation's first examples are: `examples`, or those of its input, which is
/// opened without them.
HookPtr make_graph_hook(const Estimator& estimator, const EvalSpec& spec,
                        std::optional<Batch> examples);

}  // namespace muster::internal
