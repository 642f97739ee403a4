#include "muster/train/canned/canned.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/train/canned/canned_parts_internal.h"

namespace muster {
namespace {

constexpr double kDnnLearningRate = 0.05;

Estimator dnn_estimator(DNNOptions options, HeadPtr head, RunConfig config) {
  if (options.feature_columns.empty()) {
    throw InvalidArgument("a DNN estimator needs feature_columns, and there are none");
  }
  const WideAndDeepOptions model{.dnn_columns = internal::column_set_or_null(
                                     std::move(options.feature_columns), ColumnUse::kInputLayer),
                                 .hidden_units = std::move(options.hidden_units),
                                 .activation = std::move(options.activation),
                                 .dropout = options.dropout,
                                 .batch_norm = options.batch_norm};
  return internal::wide_and_deep_estimator(
      model, std::move(head),
      internal::single_optimizer("dnn", options.optimizer.resolve("Adagrad", kDnnLearningRate)),
      std::move(options.warm_start), std::move(config));
}

}  // namespace

Estimator dnn_classifier(DNNOptions options, RunConfig config) {
  auto head = internal::classifier_head(internal::labels_of(options));
  return dnn_estimator(std::move(options), std::move(head), std::move(config));
}

Estimator dnn_regressor(DNNOptions options, RunConfig config) {
  auto head = internal::regressor_head(internal::labels_of(options));
  return dnn_estimator(std::move(options), std::move(head), std::move(config));
}

}  // namespace muster
