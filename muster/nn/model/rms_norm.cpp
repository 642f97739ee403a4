#include "muster/nn/model/rms_norm.h"

#include <torch/types.h>

#include "muster/base/error.h"

namespace muster {

RmsNorm::RmsNorm(std::int64_t size, double epsilon, at::Device device) : epsilon_(epsilon) {
  if (size <= 0) throw InvalidArgument("RmsNorm: size must be positive: {}", size);
  if (!(epsilon > 0)) throw InvalidArgument("RmsNorm: epsilon must be positive: {}", epsilon);
  weight = register_parameter("weight", torch::ones({size}, device));
}

torch::Tensor RmsNorm::forward(const torch::Tensor& x) {
  const auto mean_square = x.square().mean({-1}, /*keepdim=*/true);
  return x * at::rsqrt(mean_square + epsilon_) * weight;
}

}  // namespace muster
