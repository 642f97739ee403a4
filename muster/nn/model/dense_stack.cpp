#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "muster/nn/kernels/gemm.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/model/dense_stack_internal.h"
#include "muster/nn/model/graph_node_internal.h"

namespace muster::internal {
namespace {

using kernels::gemm;
using kernels::Into;
using kernels::row_major;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

void fill_rows(const at::Tensor& bias, std::int64_t rows, std::int64_t columns, float* to) {
  const float* const values = bias.data_ptr<float>();
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * columns, values, static_cast<std::size_t>(columns) * sizeof(float));
  }
}

void relu(float* values, std::int64_t count) {
  // NaN stays, as in libtorch's relu.
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] <= 0 ? 0 : values[i];
}

// Where the activation is 0 nothing comes back.
void relu_backward(const float* activations, std::int64_t count, float* gradients) {
  for (std::int64_t i = 0; i < count; ++i) gradients[i] = activations[i] > 0 ? gradients[i] : 0;
}

at::Tensor sum_of_rows(const at::Tensor& tensor) {
  const std::int64_t rows = tensor.size(0);
  const std::int64_t columns = tensor.size(1);
  at::Tensor result = at::zeros({columns}, tensor.options());
  const float* const values = tensor.data_ptr<float>();
  float* const sums = result.data_ptr<float>();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) sums[c] += values[r * columns + c];
  }
  return result;
}

/// One layer's forward, into a fresh tensor.
at::Tensor layer(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                 bool with_relu) {
  const std::int64_t rows = x.size(0);
  const std::int64_t inputs = kernel.size(0);
  const std::int64_t units = kernel.size(1);
  at::Tensor y = at::empty({rows, units}, x.options());
  auto* const to = y.data_ptr<float>();
  if (bias.defined()) fill_rows(bias, rows, units, to);
  gemm(rows, units, inputs, row_major(x.data_ptr<float>(), inputs),
       row_major(kernel.data_ptr<float>(), units), to, units,
       bias.defined() ? Into::kAdd : Into::kReplace);
  if (with_relu) relu(to, rows * units);
  return y;
}

/// The way back through all layers. Its inputs are input, kernels and biases, in this order.
struct StackBackward : public torch::autograd::Node {
  SavedVariable input;
  std::vector<SavedVariable> kernels;
  /// Results of all layers, but of the last only where it has a relu.
  std::vector<at::Tensor> activations;
  std::vector<bool> has_bias;
  bool relu_at_end = false;

  std::string name() const override { return "MusterDenseStackBackward"; }

  void release_variables() override {
    input.reset_data();
    for (auto& kernel : kernels) kernel.reset_data();
    activations.clear();
  }

  variable_list apply(variable_list&& output_gradients) override {
    const std::size_t layers = kernels.size();
    variable_list result(1 + 2 * layers);
    if (!output_gradients[0].defined()) return result;
    at::Tensor gradient = output_gradients[0].contiguous();
    // A relu's gradient is made in place, which the caller's tensor is not ours for.
    if (relu_at_end && gradient.is_same(output_gradients[0])) gradient = gradient.clone();
    for (std::size_t i = layers; i-- > 0;) {
      const at::Tensor kernel = kernels[i].unpack();
      const at::Tensor x = i == 0 ? input.unpack() : activations[i - 1];
      if (i + 1 < layers || relu_at_end) {
        relu_backward(activations[i].data_ptr<float>(), gradient.numel(),
                      gradient.data_ptr<float>());
      }
      if (task_should_compute_output(1 + i)) result[1 + i] = kernel_gradient(x, gradient);
      if (has_bias[i] && task_should_compute_output(1 + layers + i)) {
        result[1 + layers + i] = sum_of_rows(gradient);
      }
      if (i > 0 || task_should_compute_output(0)) gradient = input_gradient(gradient, kernel);
    }
    if (task_should_compute_output(0)) result[0] = gradient;
    return result;
  }

 private:
  static at::Tensor kernel_gradient(const at::Tensor& x, const at::Tensor& gradient) {
    const std::int64_t inputs = x.size(1);
    const std::int64_t units = gradient.size(1);
    at::Tensor result = at::empty({inputs, units}, gradient.options());
    gemm(inputs, units, x.size(0), row_major(x.data_ptr<float>(), inputs).transposed(),
         row_major(gradient.data_ptr<float>(), units), result.data_ptr<float>(), units,
         Into::kReplace);
    return result;
  }

  static at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& kernel) {
    const std::int64_t inputs = kernel.size(0);
    const std::int64_t units = kernel.size(1);
    at::Tensor result = at::empty({gradient.size(0), inputs}, gradient.options());
    gemm(gradient.size(0), inputs, units, row_major(gradient.data_ptr<float>(), units),
         row_major(kernel.data_ptr<float>(), units).transposed(), result.data_ptr<float>(), inputs,
         Into::kReplace);
    return result;
  }
};

variable_list variables_of(const at::Tensor& input, const DenseStack& stack) {
  variable_list variables{input};
  variables.insert(variables.end(), stack.kernels.begin(), stack.kernels.end());
  variables.insert(variables.end(), stack.biases.begin(), stack.biases.end());
  return variables;
}

// Null where no gradients will be asked for.
std::unique_ptr<StackBackward> backward_of(const at::Tensor& input, const DenseStack& stack,
                                           const variable_list& variables) {
  if (!at::GradMode::is_enabled() ||
      std::none_of(variables.begin(), variables.end(),
                   [](const at::Tensor& v) { return v.defined() && v.requires_grad(); })) {
    return nullptr;
  }
  auto node = std::make_unique<StackBackward>();
  node->input = SavedVariable(input, /*is_output=*/false);
  for (const auto& kernel : stack.kernels) node->kernels.emplace_back(kernel, false);
  for (const auto& bias : stack.biases) node->has_bias.push_back(bias.defined());
  node->relu_at_end = stack.relu_at_end;
  return node;
}

}  // namespace

bool dense_stack_takes(const at::Tensor& input, const DenseStack& stack) {
  if (input.dim() != 2 || !is_plain(input) || torch::jit::tracer::isTracing() ||
      compat::autocast_is_on_for_cpu()) {
    return false;
  }
  const auto plain = [](const at::Tensor& tensor) { return !tensor.defined() || is_plain(tensor); };
  return input.size(1) == stack.kernels.front().size(0) &&
         std::all_of(stack.kernels.begin(), stack.kernels.end(), plain) &&
         std::all_of(stack.biases.begin(), stack.biases.end(), plain);
}

at::Tensor dense_stack(const at::Tensor& input, const DenseStack& stack) {
  const variable_list variables = variables_of(input, stack);
  auto node = backward_of(input, stack, variables);
  at::Tensor x = input;
  {
    const at::AutoDispatchBelowADInplaceOrView no_graph;
    const std::size_t layers = stack.kernels.size();
    for (std::size_t i = 0; i < layers; ++i) {
      const bool with_relu = i + 1 < layers || stack.relu_at_end;
      x = layer(x, stack.kernels[i], stack.biases[i], with_relu);
      // Another handle for the result: the node must not own the tensor that owns it.
      if (node && with_relu) node->activations.push_back(i + 1 < layers ? x : x.detach());
    }
  }
  if (node) set_node(x, std::move(node), torch::autograd::collect_next_edges(variables));
  return x;
}

}  // namespace muster::internal
