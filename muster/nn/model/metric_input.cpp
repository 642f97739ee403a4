#include <fmt/ranges.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/nn/model/metric_input_internal.h"

namespace muster::internal {
namespace {

at::Tensor expand_weights(const at::Tensor& weights, const at::Tensor& values) {
  if (weights.numel() == values.numel()) return weights;
  const bool one_a_row = values.dim() >= 1 && weights.dim() >= 1 &&
                         weights.numel() == values.size(0) && weights.size(0) == values.size(0);
  if (!one_a_row) {
    throw InvalidArgument("weights [{}] do not go with values [{}]: give one a value or one a row",
                          fmt::join(weights.sizes(), ", "), fmt::join(values.sizes(), ", "));
  }
  std::vector<std::int64_t> shape(static_cast<std::size_t>(values.dim()), 1);
  shape[0] = values.size(0);
  return weights.reshape(shape).expand_as(values);
}

}  // namespace

template <typename Value>
Flat<Value>::Flat(const at::Tensor& tensor)
    : tensor_(tensor.detach().to(at::kCPU, c10::CppTypeToScalarType<Value>::value).contiguous()),
      data_(tensor_.data_ptr<Value>()) {}

template class Flat<float>;
template class Flat<double>;

Weights::Weights(const at::Tensor& weights, const at::Tensor& values)
    : given_(weights.defined()),
      flat_(given_ ? expand_weights(weights, values) : torch::empty({0}, torch::kDouble)) {}

template <typename Value>
LabelledPredictions<Value>::LabelledPredictions(const at::Tensor& labels,
                                                const at::Tensor& predictions,
                                                const at::Tensor& weights)
    : label(labels), prediction(predictions), weight(weights, predictions) {
  if (label.size() == prediction.size()) return;
  throw InvalidArgument("labels [{}] and predictions [{}] are not the same number of values",
                        fmt::join(labels.sizes(), ", "), fmt::join(predictions.sizes(), ", "));
}

template struct LabelledPredictions<float>;
template struct LabelledPredictions<double>;

void throw_other_kind(const Metric& mine, const Metric& other) {
  throw InvalidArgument("a metric of kind \"{}\" cannot take the state of one of kind \"{}\"",
                        mine.kind(), other.kind());
}

}  // namespace muster::internal
