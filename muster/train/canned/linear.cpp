#include "muster/train/canned/canned.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/train/canned/canned_parts_internal.h"

namespace muster {
namespace {

constexpr double kLinearLearningRate = 0.2;

// Fewer columns allow larger steps; the name alone keeps the rate that tf.estimator gives it.
double rate_for(const OptimizerChoice& choice, std::size_t columns) {
  if (!choice.empty()) return kLinearLearningRate;
  return std::min(kLinearLearningRate, 1.0 / std::sqrt(static_cast<double>(columns)));
}

Estimator linear_estimator(LinearOptions options, HeadPtr head, RunConfig config) {
  if (options.feature_columns.empty()) {
    throw InvalidArgument("a linear estimator needs feature_columns, and there are none");
  }
  const double rate = rate_for(options.optimizer, options.feature_columns.size());
  const WideAndDeepOptions model{.linear_columns = internal::column_set_or_null(
                                     std::move(options.feature_columns), ColumnUse::kLinear),
                                 .linear_sparse_combiner = options.sparse_combiner};
  return internal::wide_and_deep_estimator(
      model, std::move(head),
      internal::single_optimizer("linear", options.optimizer.resolve("Ftrl", rate)),
      std::move(options.warm_start), std::move(config));
}

}  // namespace

Estimator linear_classifier(LinearOptions options, RunConfig config) {
  auto head = internal::classifier_head(internal::labels_of(options));
  return linear_estimator(std::move(options), std::move(head), std::move(config));
}

Estimator linear_regressor(LinearOptions options, RunConfig config) {
  auto head = internal::regressor_head(internal::labels_of(options));
  return linear_estimator(std::move(options), std::move(head), std::move(config));
}

}  // namespace muster
