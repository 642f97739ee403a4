#pragma once

#include <string>
#include <vector>

#include "muster/nn/model/metric_heads.h"
#include "muster/train/estimator/estimator.h"

/// Estimators with more metrics, canned ones too: copies that share model folder and model with the
/// given one. Each throws InvalidArgument for an estimator without a head.
namespace muster {

/// tf.estimator.add_metrics: what the function makes of each batch of an evaluation is added to the
/// estimator's own metrics (with_metrics()).
Estimator add_metrics(const Estimator& estimator, MetricFn function);

/// F1, R2, calibration, a confusion matrix and others, by the kind of head
/// (with_detailed_metrics()).
Estimator add_detailed_metrics(const Estimator& estimator);

/// All metrics for each value of these features too (with_slices()). Comes last: it slices what was
/// added before.
Estimator slice_metrics(const Estimator& estimator, std::vector<std::string> columns);

}  // namespace muster
