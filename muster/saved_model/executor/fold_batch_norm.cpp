#include "muster/saved_model/executor/fold_batch_norm_internal.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace muster::executor {
namespace {

at::Tensor doubles(const at::Tensor& values) { return values.reshape({-1}).to(at::kDouble); }

}  // namespace

ChannelLine::ChannelLine(std::int64_t outputs)
    : scale_(at::ones({outputs}, at::kDouble)), offset_(at::zeros({outputs}, at::kDouble)) {}

void ChannelLine::add(const at::Tensor& values) { offset_ = offset_ + doubles(values); }

void ChannelLine::subtract(const at::Tensor& values) { offset_ = offset_ - doubles(values); }

void ChannelLine::multiply(const at::Tensor& values) {
  scale_ = scale_ * doubles(values);
  offset_ = offset_ * doubles(values);
}

void ChannelLine::normalise(const at::Tensor& gamma, const at::Tensor& beta, const at::Tensor& mean,
                            const at::Tensor& variance, double epsilon) {
  subtract(mean);
  multiply(doubles(gamma) / (doubles(variance) + epsilon).sqrt());
  add(beta);
}

at::Tensor ChannelLine::scaled(const at::Tensor& weights) const {
  if (scale_.eq(1).all().item<bool>()) return weights;
  return (weights * scale_).to(at::kFloat);
}

at::Tensor ChannelLine::offset() const { return offset_.to(at::kFloat); }

}  // namespace muster::executor
