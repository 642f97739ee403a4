#include "muster/train/canned/canned.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/train/canned/canned_parts_internal.h"

namespace muster {
namespace {

constexpr double kCombinedDnnLearningRate = 0.001;

double linear_learning_rate(std::size_t columns) {
  return std::min(0.005, 1.0 / std::sqrt(static_cast<double>(columns)));
}

Estimator combined_estimator(DNNLinearCombinedOptions options, HeadPtr head, RunConfig config) {
  OptimizersByPrefix optimizers;
  // The network's first, as tf.estimator has it: of two Adams the second's scalars are numbered.
  if (!options.dnn_columns.empty()) {
    optimizers.add({"dnn", options.dnn_optimizer.resolve("Adagrad", kCombinedDnnLearningRate),
                    internal::outer_slot_scopes()});
  }
  if (!options.linear_columns.empty()) {
    const double rate = linear_learning_rate(options.linear_columns.size());
    optimizers.add(
        {"linear", options.linear_optimizer.resolve("Ftrl", rate), internal::outer_slot_scopes()});
  }
  const WideAndDeepOptions model{.linear_columns = internal::column_set_or_null(
                                     std::move(options.linear_columns), ColumnUse::kLinear),
                                 .linear_sparse_combiner = options.linear_sparse_combiner,
                                 .dnn_columns = internal::column_set_or_null(
                                     std::move(options.dnn_columns), ColumnUse::kInputLayer),
                                 .hidden_units = std::move(options.hidden_units),
                                 .activation = std::move(options.activation),
                                 .dropout = options.dropout,
                                 .batch_norm = options.batch_norm};
  return internal::wide_and_deep_estimator(model, std::move(head), std::move(optimizers),
                                           std::move(options.warm_start), std::move(config));
}

}  // namespace

Estimator dnn_linear_combined_classifier(DNNLinearCombinedOptions options, RunConfig config) {
  auto head = internal::classifier_head(internal::labels_of(options));
  return combined_estimator(std::move(options), std::move(head), std::move(config));
}

Estimator dnn_linear_combined_regressor(DNNLinearCombinedOptions options, RunConfig config) {
  auto head = internal::regressor_head(internal::labels_of(options));
  return combined_estimator(std::move(options), std::move(head), std::move(config));
}

}  // namespace muster
