#pragma once

#include <cstdint>

#include "muster/data/features/batch.h"
#include "muster/train/boosted_trees/boosted_trees.h"
#include "muster/train/boosted_trees/boosted_trees_features_internal.h"

namespace muster::internal {

/// All training examples.
struct TreeTrainingSet {
  SparseRows rows{};
  /// Their labels and, of the features, the weights: what a head needs.
  Batch head_batch{};
};

/// Reads the input to its end, or n_batches_per_layer batches of it. Throws InvalidArgument for an
/// input without examples, ResourceExhausted for more than max_input_bytes, saying what to do about
/// an input that never ends.
TreeTrainingSet read_training_set(const InputFn& input_fn, const InputContext& context,
                                  const TreeFeatures& features, const BoostedTreesOptions& options);

}  // namespace muster::internal
