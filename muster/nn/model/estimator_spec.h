#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/features/features.h"
#include "muster/nn/model/export_output.h"
#include "muster/nn/model/metric_set.h"
#include "muster/nn/model/mode.h"

namespace muster {

/// Values of a step to show in TensorBoard. Only handles: the writer of summaries reads them when
/// they are due, so filling these in costs nothing in between. What has to be computed first is
/// deferred.
struct Summaries {
  using Entry = std::pair<std::string, at::Tensor>;
  /// Tensors of one element.
  std::vector<Entry> scalars{};
  std::vector<Entry> histograms{};
  /// [n, height, width, channels], uint8 or float in [0, 1].
  std::vector<Entry> images{};
  std::vector<std::pair<std::string, std::string>> texts{};
  /// Each adds entries, and is called when summaries are due: after the update, on the loop's
  /// thread, without gradients.
  std::vector<std::function<void(Summaries&)>> deferred{};

  /// The entries with those of the deferred ones.
  Summaries complete() const;
};

/// Result of a model for one batch. The update itself is the loop's, so that it can be one for all
/// replicas; hooks are the loop's too.
struct EstimatorSpec {
  Mode mode = Mode::kTrain;
  /// Needed for kPredict; heads make them for that alone.
  Features predictions{};
  /// Needed for kTrain and kEval: one element.
  at::Tensor loss{};
  /// For kEval: the metrics of this batch alone. The loop merges them, which is exact in any order.
  MetricSet metrics{};
  /// For kPredict; none means one predict signature of all predictions.
  std::vector<ExportOutput> export_outputs{};
  Summaries summaries{};
};

/// Checks what a model returned and completes it: a loss of shape [1] becomes a scalar, export
/// outputs get their serving_default. Throws InvalidArgument: no loss or predictions where the mode
/// needs them, a loss of several elements or of integers, metrics named `loss` or `global_step`,
/// which the loop adds itself.
EstimatorSpec checked(EstimatorSpec spec);

}  // namespace muster
