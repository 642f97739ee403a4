#include "muster/nn/optim/tensor_kernels_internal.h"

#include <torch/types.h>

#include <cstdint>

#include "muster/nn/kernels/parallel_for.h"
#include "muster/nn/optim/flat_kernels_internal.h"

namespace muster::internal {
namespace {

/// Calls `work(first, count)` for parts of the tensor.
template <typename Work>
void in_parts(const at::Tensor& values, const Work& work) {
  kernels::parallel_for(0, values.numel(), kGrainElements,
                        [&](std::int64_t begin, std::int64_t end) {
                          work(begin, static_cast<std::size_t>(end - begin));
                        });
}

float* data(const at::Tensor& tensor) { return tensor.data_ptr<float>(); }

}  // namespace

void add_scaled(float factor, const at::Tensor& source, const at::Tensor& target) {
  if (!target.is_cpu()) {
    target.add_(source, factor);
    return;
  }
  in_parts(target, [&](std::int64_t first, std::size_t count) {
    add_scaled(count, factor, data(source) + first, data(target) + first);
  });
}

void scale(float factor, const at::Tensor& values) {
  if (!values.is_cpu()) {
    values.mul_(factor);
    return;
  }
  in_parts(values, [&](std::int64_t first, std::size_t count) {
    scale(count, factor, data(values) + first);
  });
}

void clamp(float limit, const at::Tensor& values) {
  if (!values.is_cpu()) {
    values.clamp_(-limit, limit);
    return;
  }
  in_parts(values, [&](std::int64_t first, std::size_t count) {
    clamp(count, limit, data(values) + first);
  });
}

void move_average(float rate, const at::Tensor& values, const at::Tensor& average) {
  if (!values.is_cpu()) {
    average.lerp_(values, rate);
    return;
  }
  in_parts(values, [&](std::int64_t first, std::size_t count) {
    move_average(count, rate, data(values) + first, data(average) + first);
  });
}

void swap_values(const at::Tensor& first, const at::Tensor& second) {
  if (!first.is_cpu()) {
    const at::Tensor copy = first.clone();
    first.copy_(second);
    second.copy_(copy);
    return;
  }
  in_parts(first, [&](std::int64_t begin, std::size_t count) {
    swap_values(count, data(first) + begin, data(second) + begin);
  });
}

double sum_of_squares(const at::Tensor& values) {
  if (!values.is_cpu()) return values.to(at::kDouble).square_().sum().item<double>();
  return sum_of_squares(static_cast<std::size_t>(values.numel()), data(values));
}

}  // namespace muster::internal
