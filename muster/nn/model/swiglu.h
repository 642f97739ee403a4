#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "muster/nn/model/projection.h"

namespace muster {

struct SwiGluOptions {
  std::int64_t inputs{};
  std::int64_t units{};
  /// Standard deviations of the initial weights; `output_deviation` is that of `down_proj`.
  double deviation = 0.02;
  double output_deviation = 0.02;
  at::Device device = at::kCPU;
};

/// A gated feed-forward layer: y = (silu(x * gate_proj) * (x * up_proj)) * down_proj, of as many
/// outputs as inputs.
class SwiGlu : public torch::nn::Module {
 public:
  /// Throws InvalidArgument unless sizes are positive.
  explicit SwiGlu(const SwiGluOptions& options);

  torch::Tensor forward(const torch::Tensor& x);

 private:
  std::shared_ptr<Projection> gate_, up_, down_;
};

}  // namespace muster
