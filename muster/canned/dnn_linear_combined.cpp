#include "muster/canned/dnn_linear_combined.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/canned/canned_parts_internal.h"

namespace muster {
namespace {

constexpr double kCombinedDnnLearningRate = 0.001;

double linear_learning_rate(std::size_t columns) {
  return std::min(0.005, 1.0 / std::sqrt(static_cast<double>(columns)));
}

template <typename Options>
Estimator combined_estimator(Options options, HeadPtr head, RunConfig config) {
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

Estimator dnn_linear_combined_classifier(DNNLinearCombinedClassifierOptions options,
                                         RunConfig config) {
  auto head = internal::classification_head(options.n_classes,
                                            {.weight_column = options.weight_column,
                                             .loss_reduction = options.loss_reduction,
                                             .label_vocabulary = options.label_vocabulary});
  return combined_estimator(std::move(options), std::move(head), std::move(config));
}

Estimator dnn_linear_combined_regressor(DNNLinearCombinedRegressorOptions options,
                                        RunConfig config) {
  auto head = regression_head(options.label_dimension, {.weight_column = options.weight_column,
                                                        .loss_reduction = options.loss_reduction});
  return combined_estimator(std::move(options), std::move(head), std::move(config));
}

}  // namespace muster
