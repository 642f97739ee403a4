#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/canned/optimizer_choice.h"
#include "muster/estimator/estimator.h"

namespace muster {

/// Looks at no feature and learns what is likely alone, in the variable `baseline/bias`: what any
/// model has to beat.
struct BaselineClassifierOptions {
  /// Two classes have one logit, more have one each.
  std::int64_t n_classes = 2;
  /// The feature with the examples' weights.
  std::string weight_column{};
  /// The words that string labels are made of, in the order of their ids.
  std::vector<std::string> label_vocabulary{};
  /// By name: 0.3.
  OptimizerChoice optimizer{"Ftrl"};
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

struct BaselineRegressorOptions {
  /// Numbers an example's label has.
  std::int64_t label_dimension = 1;
  std::string weight_column{};
  /// By name: 0.3.
  OptimizerChoice optimizer{"Ftrl"};
  Reduction loss_reduction = Reduction::kSum;
  std::optional<WarmStartSettings> warm_start{};
};

/// These throw InvalidArgument for fewer than two classes, or what the head or the optimizer
/// refuses.
Estimator baseline_classifier(BaselineClassifierOptions options, RunConfig config);
Estimator baseline_regressor(BaselineRegressorOptions options, RunConfig config);

}  // namespace muster
