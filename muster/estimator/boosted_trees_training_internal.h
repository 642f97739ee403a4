#pragma once

#include <memory>

#include "muster/estimator/boosted_trees.h"
#include "muster/estimator/boosted_trees_features_internal.h"

namespace muster::internal {

/// What the trees' margin stands for.
enum class TreeTask { kBinaryClasses, kRegression };

/// One call of train(): a step grows a tree over all examples.
TrainResult train_boosted_trees(const BoostedTreesOptions& options, TreeTask task,
                                const TreeFeatures& features, const Head& head,
                                const RunConfig& config, const InputFn& input_fn,
                                const TrainOptions& train_options);

/// The head of an estimator of this kind.
HeadPtr make_tree_head(const BoostedTreesOptions& options, TreeTask task, Reduction reduction);

}  // namespace muster::internal
