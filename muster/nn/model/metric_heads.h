#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "muster/nn/model/head.h"

/// Heads that are another head with more metrics. Loss, predictions, signatures and names stay
/// what they were.
namespace muster {

/// A batch of an evaluation, and what the model makes of it.
struct EvaluatedBatch {
  const Features& features;
  const Features& labels;
  /// All keys that the head predicts.
  const Features& predictions;
  /// Those of the head's weight_column, [batch, 1] or [batch, k]; undefined where all are 1.
  at::Tensor weights{};
};

/// Metrics of one batch, as evaluations merge them. Called by one thread.
using MetricFn = std::function<MetricSet(const EvaluatedBatch&)>;

/// The metrics of `head` and of the function: tf.estimator.add_metrics. Evaluation throws
/// AlreadyExists for a name that the head has. Throws InvalidArgument without a head or a function.
HeadPtr with_metrics(HeadPtr head, MetricFn function);

/// And those that are too many to be there unasked: F1, balanced accuracy, calibration, scores of
/// each class and a confusion matrix of classes; mean absolute and percentage errors and R2 of
/// numbers. Throws InvalidArgument without a head.
HeadPtr with_detailed_metrics(HeadPtr head);

/// All metrics of `head`, and each once more for the examples of every value that one of these
/// columns has: "accuracy/city=Bern". Columns are features with one word or integer per example.
/// Throws InvalidArgument without a head or columns; evaluation throws NotFound for a column that
/// is not there and InvalidArgument for one of another kind, or of over 100 values in one batch.
HeadPtr with_slices(HeadPtr head, std::vector<std::string> columns);

}  // namespace muster
