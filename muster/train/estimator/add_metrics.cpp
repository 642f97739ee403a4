#include "muster/train/estimator/add_metrics.h"

#include <utility>

namespace muster {
namespace {

template <typename Change>
Estimator with_head(const Estimator& estimator, Change&& change) {
  EstimatorOptions options = estimator.options();
  options.head = std::forward<Change>(change)(std::move(options.head));
  return {std::move(options), estimator.config()};
}

}  // namespace

Estimator add_metrics(const Estimator& estimator, MetricFn function) {
  return with_head(
      estimator, [&](HeadPtr head) { return with_metrics(std::move(head), std::move(function)); });
}

Estimator add_detailed_metrics(const Estimator& estimator) {
  return with_head(estimator, [](HeadPtr head) { return with_detailed_metrics(std::move(head)); });
}

Estimator slice_metrics(const Estimator& estimator, std::vector<std::string> columns) {
  return with_head(estimator,
                   [&](HeadPtr head) { return with_slices(std::move(head), std::move(columns)); });
}

}  // namespace muster
