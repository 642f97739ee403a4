#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/canned/optimizer_choice.h"
#include "muster/estimator/estimator.h"
#include "muster/features/feature_column.h"

namespace muster {

/// Wide and deep: the logits of a linear model and of a network are added, and each part has its
/// own optimizer. Either part may be left out. Variables are those of linear_classifier and
/// dnn_classifier.
struct DNNLinearCombinedClassifierOptions {
  FeatureColumnList linear_columns{};
  /// By name: min(0.005, 1 / sqrt(number of linear columns)).
  OptimizerChoice linear_optimizer{"Ftrl"};
  /// How the weights of several ids of one example become one.
  Combiner linear_sparse_combiner = Combiner::kSum;
  FeatureColumnList dnn_columns{};
  /// By name: 0.001.
  OptimizerChoice dnn_optimizer{"Adagrad"};
  /// Units of each hidden layer, first to last; needed where there are dnn_columns.
  std::vector<std::int64_t> hidden_units{};
  /// relu when empty. It must not draw random numbers.
  std::function<at::Tensor(const at::Tensor&)> activation{};
  /// The fraction dropped after each hidden layer in training.
  double dropout = 0.0;
  bool batch_norm = false;
  /// Two classes have one logit, more have one each.
  std::int64_t n_classes = 2;
  /// The feature with the examples' weights.
  std::string weight_column{};
  /// The words that string labels are made of, in the order of their ids.
  std::vector<std::string> label_vocabulary{};
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

struct DNNLinearCombinedRegressorOptions {
  FeatureColumnList linear_columns{};
  /// These as of DNNLinearCombinedClassifierOptions.
  OptimizerChoice linear_optimizer{"Ftrl"};
  Combiner linear_sparse_combiner = Combiner::kSum;
  FeatureColumnList dnn_columns{};
  OptimizerChoice dnn_optimizer{"Adagrad"};
  std::vector<std::int64_t> hidden_units{};
  std::function<at::Tensor(const at::Tensor&)> activation{};
  double dropout = 0.0;
  bool batch_norm = false;
  /// Numbers an example's label has.
  std::int64_t label_dimension = 1;
  std::string weight_column{};
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

/// These throw InvalidArgument when both parts have no columns, for dnn_columns without
/// hidden_units, columns that a part has no place for, fewer than two classes, or what the head or
/// an optimizer refuses.
Estimator dnn_linear_combined_classifier(DNNLinearCombinedClassifierOptions options,
                                         RunConfig config);
Estimator dnn_linear_combined_regressor(DNNLinearCombinedRegressorOptions options,
                                        RunConfig config);

}  // namespace muster
