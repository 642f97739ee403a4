#pragma once

/// Estimators that are ready: linear models, networks, both combined, and what any of them has to
/// beat. A classifier and a regressor of the same kind have the same options.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/features/feature_column.h"
#include "muster/nn/optim/optimizer.h"
#include "muster/train/estimator/estimator.h"

namespace muster {

/// The optimizer of a canned estimator: nothing, which is the estimator's own; a name such as
/// "adam" (see optimizer_by_name()), which takes the estimator's learning rate; or a value, with a
/// learning rate of its own.
class OptimizerChoice {
 public:
  OptimizerChoice() = default;
  OptimizerChoice(std::string name);     // NOLINT(google-explicit-constructor)
  OptimizerChoice(const char* name);     // NOLINT(google-explicit-constructor)
  OptimizerChoice(Optimizer optimizer);  // NOLINT(google-explicit-constructor)

  /// Nothing was chosen.
  bool empty() const { return name_.empty() && !optimizer_; }
  /// Throws InvalidArgument for an unknown name.
  Optimizer resolve(std::string_view default_name, const LearningRate& learning_rate) const;

 private:
  std::string name_;
  std::optional<Optimizer> optimizer_;
};

/// A linear model over feature columns. Variables: `linear/linear_model/<column>/weights` and
/// `linear/linear_model/bias_weights`.
struct LinearOptions {
  FeatureColumnList feature_columns{};
  /// Number of classes of a classifier: two have one logit, more have one each.
  std::int64_t n_classes = 2;
  /// Number of values in an example's label, for a regressor.
  std::int64_t label_dimension = 1;
  /// The feature with the examples' weights.
  std::string weight_column{};
  /// Vocabulary of a classifier's string labels, in the order of their ids.
  std::vector<std::string> label_vocabulary{};
  /// By name: 0.2. With {} the rate is min(0.2, 1 / sqrt(number of columns)).
  OptimizerChoice optimizer{"Ftrl"};
  /// How the weights of several ids of one example become one.
  Combiner sparse_combiner = Combiner::kSum;
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

/// Throw InvalidArgument for no columns, columns that a linear model has no place for, fewer than
/// two classes, a field that only the other of the two has, or what the head or the optimizer
/// refuses.
Estimator linear_classifier(LinearOptions options, RunConfig config);
Estimator linear_regressor(LinearOptions options, RunConfig config);

/// A network over feature columns: hidden layers of dense, activation, dropout and batch
/// normalisation, in this order. Variables:
/// `dnn/input_from_feature_columns/input_layer/<column>/embedding_weights`,
/// `dnn/hiddenlayer_<i>/{kernel,bias}` and `dnn/logits/{kernel,bias}`.
struct DNNOptions {
  /// Units of each hidden layer, first to last.
  std::vector<std::int64_t> hidden_units{};
  /// Dense columns; categorical ones go into indicator or embedding columns.
  FeatureColumnList feature_columns{};
  /// Number of classes of a classifier: two have one logit, more have one each.
  std::int64_t n_classes = 2;
  /// Number of values in an example's label, for a regressor.
  std::int64_t label_dimension = 1;
  /// The feature with the examples' weights.
  std::string weight_column{};
  /// Vocabulary of a classifier's string labels, in the order of their ids.
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

/// Throw InvalidArgument for no columns or no hidden units, columns that a network has no place
/// for, and as linear_classifier() does.
Estimator dnn_classifier(DNNOptions options, RunConfig config);
Estimator dnn_regressor(DNNOptions options, RunConfig config);

/// Wide and deep: the logits of a linear model and of a network are added, and each part has its
/// own optimizer. Either part may be missing. Variables are those of linear_classifier and
/// dnn_classifier.
struct DNNLinearCombinedOptions {
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
  /// Number of classes of a classifier: two have one logit, more have one each.
  std::int64_t n_classes = 2;
  /// Number of values in an example's label, for a regressor.
  std::int64_t label_dimension = 1;
  /// The feature with the examples' weights.
  std::string weight_column{};
  /// Vocabulary of a classifier's string labels, in the order of their ids.
  std::vector<std::string> label_vocabulary{};
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

/// Throw InvalidArgument when both parts have no columns, for dnn_columns without hidden_units,
/// columns that a part has no place for, and as linear_classifier() does.
Estimator dnn_linear_combined_classifier(DNNLinearCombinedOptions options, RunConfig config);
Estimator dnn_linear_combined_regressor(DNNLinearCombinedOptions options, RunConfig config);

/// Looks at no feature and learns what is likely alone, in the variable `baseline/bias`: what any
/// model has to beat.
struct BaselineOptions {
  /// Number of classes of a classifier: two have one logit, more have one each.
  std::int64_t n_classes = 2;
  /// Number of values in an example's label, for a regressor.
  std::int64_t label_dimension = 1;
  /// The feature with the examples' weights.
  std::string weight_column{};
  /// Vocabulary of a classifier's string labels, in the order of their ids.
  std::vector<std::string> label_vocabulary{};
  /// By name: 0.3.
  OptimizerChoice optimizer{"Ftrl"};
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

/// Throw InvalidArgument as linear_classifier() does.
Estimator baseline_classifier(BaselineOptions options, RunConfig config);
Estimator baseline_regressor(BaselineOptions options, RunConfig config);

}  // namespace muster
