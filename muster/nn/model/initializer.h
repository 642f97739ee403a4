#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace muster {

/// Fills a float tensor in place, from random numbers that are a function of `key`. The same bits
/// on every machine: only correctly rounded operations are used.
using Initializer = std::function<void(at::Tensor& tensor, std::uint64_t key)>;

/// The dimensions of a kernel's shape that are its inputs and outputs.
enum class KernelLayout {
  /// [..., in, out], TensorFlow's and our Dense's.
  kInOut,
  /// [out, in, ...], libtorch's.
  kOutIn,
};

Initializer zeros();
Initializer ones();
Initializer constant(float value);
/// Uniform in [-limit, limit), limit = sqrt(6 / (fan_in + fan_out)).
Initializer glorot_uniform(KernelLayout layout = KernelLayout::kInOut);
/// Uniform in [-limit, limit). Throws InvalidArgument unless the limit is positive.
Initializer uniform(float limit);
/// Normal around 0, values beyond two standard deviations drawn again. Throws InvalidArgument
/// unless stddev is positive.
Initializer truncated_normal(float stddev);

}  // namespace muster
