#include "muster/optim/moving_average.h"

#include <torch/types.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/optim/tensor_kernels_internal.h"

namespace muster {

MovingAverage::MovingAverage(const Variables& variables, const MovingAverageOptions& options)
    : options_(options) {
  if (!(options.decay >= 0 && options.decay <= 1)) {
    throw InvalidArgument("a moving average's decay must be in [0, 1]: {}", options.decay);
  }
  pairs_.push_back({variables.flat(), variables.flat().clone()});
  for (const Variable& variable : variables.all()) {
    at::Tensor average;
    if (variable.dense()) {
      average = pairs_[0]
                    .average.narrow(0, variable.offset, variable.value.numel())
                    .view(variable.value.sizes());
    } else if (variable.sparse()) {
      average = variable.value.clone();
      pairs_.push_back({variable.value, average});
    } else {
      continue;
    }
    tensors_.push_back({variable.spec.name + "/ExponentialMovingAverage", average});
  }
}

void MovingAverage::update(std::int64_t step) {
  double decay = options_.decay;
  if (options_.ramp) {
    const double updates = static_cast<double>(step) + 1.0;
    decay = std::min(decay, (1.0 + updates) / (10.0 + updates));
  }
  for (const Pair& pair : pairs_) {
    internal::move_average(static_cast<float>(1.0 - decay), pair.value, pair.average);
  }
}

void MovingAverage::swap() {
  for (const Pair& pair : pairs_) internal::swap(pair.value, pair.average);
}

std::vector<NamedTensor> MovingAverage::tensors() const { return tensors_; }

}  // namespace muster
