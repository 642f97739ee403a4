#include "muster/nn/model/dense.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/matmul.h>
#include <torch/types.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/nn/model/dense_stack_internal.h"
#include "muster/nn/model/random_scope.h"

namespace muster {

Dense::Dense(std::int64_t inputs, std::int64_t units, DenseOptions options)
    : options_(std::move(options)) {
  if (inputs <= 0 || units <= 0) {
    throw InvalidArgument("a dense layer needs positive sizes: {} inputs, {} units", inputs, units);
  }
  kernel = register_parameter("kernel", torch::empty({inputs, units}));
  if (options_.use_bias) bias = register_parameter("bias", torch::empty({units}));
  Dense::seed_from(0, "");
}

torch::Tensor Dense::forward(const torch::Tensor& input) {
  // Large products are better left to the BLAS.
  constexpr std::int64_t kSmall = 1 << 22;
  if (input.numel() * kernel.size(1) < kSmall) {
    const internal::DenseStack stack{.kernels = {kernel}, .biases = {bias}};
    if (internal::dense_stack_takes(input, stack)) return internal::dense_stack(input, stack);
  }
  return bias.defined() ? at::addmm(bias, input, kernel) : at::matmul(input, kernel);
}

void Dense::seed_from(std::uint64_t seed, const std::string& name) {
  options_.kernel_initializer(kernel, derive_key(seed, name + ".kernel"));
  if (bias.defined()) options_.bias_initializer(bias, derive_key(seed, name + ".bias"));
}

}  // namespace muster
