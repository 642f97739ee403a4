#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/data/features/feature_column.h"
#include "muster/train/estimator/estimator.h"

namespace muster {

/// When branches that lower the loss by less than tree_complexity are cut.
enum class PruningMode {
  kNone,
  /// A node is not split if its split gains too little.
  kPre,
  /// Trees grow to their full depth first; a branch is cut from its leaves upwards. Its splits are
  /// searched over all values, which takes longer.
  kPost,
};

/// Options of boosted trees. Derivatives are those of the loss summed over examples, each times its
/// weight.
struct BoostedTreesOptions {
  /// Numeric columns (NaN is a missing value), bucketized ones (one ordered number each) and
  /// indicators. Sorted by name.
  FeatureColumnList feature_columns{};
  /// Trees see all of the training examples at every layer: the input is read once, before the
  /// first step. Not set: to its end. Set: this many batches, which may be one pass over an input
  /// that repeats.
  std::optional<std::int64_t> n_batches_per_layer{};
  /// A step grows one tree; training ends with this many.
  std::int64_t n_trees = 100;
  std::int64_t max_depth = 6;
  /// Factor by which the output of each tree is multiplied.
  double learning_rate = 0.1;
  double l1_regularization = 0;
  double l2_regularization = 0;
  /// Cost of a leaf. Positive if and only if there is pruning.
  double tree_complexity = 0;
  /// The least sum of second derivatives in a leaf.
  double min_node_weight = 0;
  /// Trees begin from the mean label instead of logit 0.
  bool center_bias = false;
  PruningMode pruning_mode = PruningMode::kNone;
  /// Numbers are split at their quantiles, 1 / epsilon of them.
  double quantile_sketch_epsilon = 0.01;
  /// The feature with the examples' weights.
  std::string weight_column{};
  Reduction loss_reduction = Reduction::kSumOverBatchSize;

  /// Columns of one number, and whether the logit must not fall (1) or not rise (-1) when the
  /// number rises, all others being equal. Only of a regressor and of a classifier of two classes.
  std::map<std::string, int> monotone_constraints{};

  /// Only for classifiers. Of more than two classes a step grows one tree for each, by the
  /// gradients of their softmax; the second derivative is libxgboost's bound, 2 p (1 - p).
  std::int64_t n_classes = 2;
  std::vector<std::string> label_vocabulary{};
  /// Only for regressors.
  std::int64_t label_dimension = 1;

  /// Training fails when the examples take more memory than this, and so does one whose input never
  /// ends.
  std::int64_t max_input_bytes = std::int64_t{4} << 30;
};

/// Gradient boosted trees as an estimator like any other: train(), evaluate(), predict(),
/// train_and_evaluate(), hooks, checkpoints, an exact resume. The trees are libxgboost's, the same
/// ones for any number of threads; they are in a checkpoint as the string `boosted_trees/model`, in
/// its UBJSON.
///
/// Throws InvalidArgument for options that cannot work, a column that trees cannot read, or
/// several replicas; Unimplemented in a cluster of several tasks, or, saying what to install, when
/// muster was built without libxgboost.
Estimator boosted_trees_classifier(BoostedTreesOptions options, RunConfig config);
Estimator boosted_trees_regressor(BoostedTreesOptions options, RunConfig config);

struct FeatureImportance {
  std::string column{};
  /// The gains of all splits on the column.
  double gain = 0;
};

struct ExplainOptions {
  /// A checkpoint prefix; empty takes the latest.
  Path checkpoint_path{};
  /// Importances sum to 1, unless all are 0.
  bool normalize = false;
};

/// All columns, the most important first; equal ones by name. Throws InvalidArgument for an
/// estimator that is not of this kind, NotFound without a checkpoint.
std::vector<FeatureImportance> feature_importances(const Estimator& estimator,
                                                   const ExplainOptions& options = {});

/// How the columns move the logit of each example.
struct DirectionalContributions {
  /// float [rows], or [rows, classes] of more than two: what an example is given before anything is
  /// known of it.
  at::Tensor bias{};
  /// By column, float like the bias. They and the bias sum to the logit.
  Features columns{};
};

/// Follows each example down the trees: a column contributes what its splits change of the expected
/// logit. Throws as feature_importances() does.
DirectionalContributions directional_contributions(const Estimator& estimator,
                                                   const Features& features,
                                                   const ExplainOptions& options = {});

}  // namespace muster
