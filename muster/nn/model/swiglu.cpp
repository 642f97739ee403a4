#include "muster/nn/model/swiglu.h"

#include <torch/types.h>

namespace muster {

SwiGlu::SwiGlu(const SwiGluOptions& options) {
  const auto projection = [&](const char* name, std::int64_t inputs, std::int64_t outputs,
                              double deviation) {
    return register_module(
        name,
        std::make_shared<Projection>(
            inputs, outputs, ProjectionOptions{.deviation = deviation, .device = options.device}));
  };
  gate_ = projection("gate_proj", options.inputs, options.units, options.deviation);
  up_ = projection("up_proj", options.inputs, options.units, options.deviation);
  down_ = projection("down_proj", options.units, options.inputs, options.output_deviation);
}

torch::Tensor SwiGlu::forward(const torch::Tensor& x) {
  return down_->forward(at::silu(gate_->forward(x)) * up_->forward(x));
}

}  // namespace muster
