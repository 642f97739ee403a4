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

/// A network over feature columns: hidden layers of dense, activation, dropout and batch
/// normalisation, in this order. Variables:
/// `dnn/input_from_feature_columns/input_layer/<column>/embedding_weights`,
/// `dnn/hiddenlayer_<i>/{kernel,bias}` and `dnn/logits/{kernel,bias}`.
struct DNNClassifierOptions {
  /// Units of each hidden layer, first to last.
  std::vector<std::int64_t> hidden_units{};
  /// Dense columns; categorical ones go into indicator or embedding columns.
  FeatureColumnList feature_columns{};
  /// Two classes have one logit, more have one each.
  std::int64_t n_classes = 2;
  /// The feature with the examples' weights.
  std::string weight_column{};
  /// The words that string labels are made of, in the order of their ids.
  std::vector<std::string> label_vocabulary{};
  /// By name: 0.05.
  OptimizerChoice optimizer{"Adagrad"};
  /// relu when empty. It must not draw random numbers.
  std::function<at::Tensor(const at::Tensor&)> activation{};
  /// The fraction dropped after each hidden layer in training.
  double dropout = 0.0;
  bool batch_norm = false;
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

struct DNNRegressorOptions {
  std::vector<std::int64_t> hidden_units{};
  FeatureColumnList feature_columns{};
  /// Numbers an example's label has.
  std::int64_t label_dimension = 1;
  std::string weight_column{};
  /// By name: 0.05.
  OptimizerChoice optimizer{"Adagrad"};
  std::function<at::Tensor(const at::Tensor&)> activation{};
  double dropout = 0.0;
  bool batch_norm = false;
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

/// These throw InvalidArgument for no columns or no hidden units, columns that a network has no
/// place for, fewer than two classes, or what the head or the optimizer refuses.
Estimator dnn_classifier(DNNClassifierOptions options, RunConfig config);
Estimator dnn_regressor(DNNRegressorOptions options, RunConfig config);

}  // namespace muster
