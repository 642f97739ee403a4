#pragma once

#include <span>

#include "muster/train/boosted_trees/boosted_trees.h"
#include "muster/train/boosted_trees/boosted_trees_features_internal.h"

namespace muster::internal {

/// Task of the trees, which decides what their margin stands for.
enum class TreeTask { kBinaryClasses, kClasses, kRegression };

/// How many margins an example has.
std::int64_t outputs_of(const BoostedTreesOptions& options, TreeTask task);

/// One call of train(): a step grows a tree over all examples.
TrainResult train_boosted_trees(const BoostedTreesOptions& options, TreeTask task,
                                const TreeFeatures& features, const Head& head,
                                const RunConfig& config, const InputFn& input_fn,
                                const TrainOptions& train_options);

/// Rounds to multiples of a power of two that is so large that every sum of these values is exact
/// in double, and so small that next to nothing is lost. Threads then add in any order they like.
void round_for_exact_sums(std::span<float> values);

/// The head of an estimator of this kind.
HeadPtr make_tree_head(const BoostedTreesOptions& options, TreeTask task, Reduction reduction);

}  // namespace muster::internal
