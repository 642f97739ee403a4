#pragma once

#include <ATen/core/Tensor.h>

namespace muster::executor {

/// Combined effect of a layer's bias, batch norm, and products and sums with constants on its
/// outputs: output i becomes x * scale[i] + offset[i]. Both are float64 [outputs]. It can be put
/// into the weights before it, so that it costs nothing.
class ChannelLine {
 public:
  /// Changes nothing.
  explicit ChannelLine(std::int64_t outputs);

  /// Each is float [outputs], or of one element.
  void add(const at::Tensor& values);
  void subtract(const at::Tensor& values);
  void multiply(const at::Tensor& values);
  void normalise(const at::Tensor& gamma, const at::Tensor& beta, const at::Tensor& mean,
                 const at::Tensor& variance, double epsilon);

  /// Weights whose last axis are the outputs, float32, scaled.
  at::Tensor scaled(const at::Tensor& weights) const;
  /// float32.
  at::Tensor offset() const;

 private:
  at::Tensor scale_;
  at::Tensor offset_;
};

}  // namespace muster::executor
