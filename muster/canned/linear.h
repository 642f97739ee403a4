#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/canned/optimizer_choice.h"
#include "muster/estimator/estimator.h"
#include "muster/features/feature_column.h"

namespace muster {

/// A linear model over feature columns. Variables: `linear/linear_model/<column>/weights` and
/// `linear/linear_model/bias_weights`.
struct LinearClassifierOptions {
  FeatureColumnList feature_columns{};
  /// Two classes have one logit, more have one each.
  std::int64_t n_classes = 2;
  /// The feature with the examples' weights.
  std::string weight_column{};
  /// The words that string labels are made of, in the order of their ids.
  std::vector<std::string> label_vocabulary{};
  /// By name: 0.2. With {} the rate is min(0.2, 1 / sqrt(number of columns)).
  OptimizerChoice optimizer{"Ftrl"};
  /// How the weights of several ids of one example become one.
  Combiner sparse_combiner = Combiner::kSum;
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

struct LinearRegressorOptions {
  FeatureColumnList feature_columns{};
  /// Numbers an example's label has.
  std::int64_t label_dimension = 1;
  std::string weight_column{};
  /// As of LinearClassifierOptions.
  OptimizerChoice optimizer{"Ftrl"};
  Combiner sparse_combiner = Combiner::kSum;
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

/// These throw InvalidArgument for no columns, columns that a linear model has no place for, fewer
/// than two classes, or what the head or the optimizer refuses.
Estimator linear_classifier(LinearClassifierOptions options, RunConfig config);
Estimator linear_regressor(LinearRegressorOptions options, RunConfig config);

}  // namespace muster
