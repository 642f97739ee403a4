#include "muster/nn/model/projection.h"

#include <torch/types.h>

#include "muster/base/error.h"

namespace muster {

Projection::Projection(std::int64_t inputs, std::int64_t outputs,
                       const ProjectionOptions& options) {
  if (inputs <= 0 || outputs <= 0) {
    throw InvalidArgument("a projection's sizes must be positive: {} inputs, {} outputs", inputs,
                          outputs);
  }
  weight = register_parameter("weight", torch::empty({outputs, inputs}, options.device));
  const torch::NoGradGuard no_grad;
  if (!weight.is_meta()) weight.normal_(0, options.deviation);
}

torch::Tensor Projection::forward(const torch::Tensor& x) { return at::linear(x, weight); }

}  // namespace muster
