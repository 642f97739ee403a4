#include "muster/nn/model/estimator_spec.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include "muster/base/error.h"

namespace muster {
namespace {

at::Tensor checked_loss(const at::Tensor& loss, Mode mode) {
  if (!loss.defined()) {
    throw InvalidArgument("the model returned no loss, which mode {} needs", name_of(mode));
  }
  if (loss.numel() != 1 || loss.dim() > 1) {
    throw InvalidArgument("the loss must be a scalar or of shape [1], not [{}]: take its mean",
                          fmt::join(loss.sizes(), ", "));
  }
  if (!loss.is_floating_point()) {
    throw InvalidArgument("the loss must be a floating-point number, not {}",
                          c10::toString(loss.scalar_type()));
  }
  return loss.dim() == 0 ? loss : loss.squeeze(0);
}

void check_metric_names(const MetricSet& metrics) {
  for (const auto* reserved : {"loss", "global_step"}) {
    if (metrics.contains(reserved)) {
      throw InvalidArgument(
          "the model returned a metric \"{}\", a name that evaluation itself uses: rename it",
          reserved);
    }
  }
}

}  // namespace

Summaries Summaries::complete() const {
  Summaries all = *this;
  all.deferred.clear();
  const torch::NoGradGuard no_grad;
  for (const auto& add : deferred) add(all);
  return all;
}

EstimatorSpec checked(EstimatorSpec spec) {
  if (spec.mode == Mode::kPredict) {
    if (spec.predictions.empty()) {
      throw InvalidArgument("the model returned no predictions, which mode infer needs");
    }
    std::vector<std::string> predictions;
    for (const auto& column : spec.predictions) predictions.push_back(column.first);
    spec.export_outputs = with_serving_default(std::move(spec.export_outputs), predictions);
    return spec;
  }
  spec.loss = checked_loss(spec.loss, spec.mode);
  check_metric_names(spec.metrics);
  return spec;
}

}  // namespace muster
