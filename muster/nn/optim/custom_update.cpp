#include <torch/types.h>

#include <vector>

#include "muster/nn/kernels/parallel_for.h"
#include "muster/nn/optim/custom_update_internal.h"
#include "muster/nn/optim/tensor_kernels_internal.h"

namespace muster::internal {
namespace {

float* floats(const at::Tensor& tensor) { return tensor.data_ptr<float>(); }

// All tensors are contiguous and in host memory.
void update_on_host(const CustomRule& rule, const at::Tensor& values, const at::Tensor& gradients,
                    std::span<const at::Tensor> slots, const FlatRange& range) {
  kernels::parallel_for(range.first, range.last, kGrainElements,
                        [&](std::int64_t begin, std::int64_t end) {
                          const auto count = static_cast<std::size_t>(end - begin);
                          std::vector<std::span<float>> parts;
                          parts.reserve(slots.size());
                          for (const at::Tensor& slot : slots)
                            parts.emplace_back(floats(slot) + begin, count);
                          rule.options.update({.learning_rate = rule.learning_rate,
                                               .step = rule.step,
                                               .rate_share = rule.rate_share,
                                               .values = {floats(values) + begin, count},
                                               .gradients = {floats(gradients) + begin, count},
                                               .slots = parts});
                        });
}

}  // namespace

void custom_update(const CustomRule& rule, const at::Tensor& values, const at::Tensor& gradients,
                   std::span<const at::Tensor> slots, const FlatRange& range) {
  if (values.is_cpu()) return update_on_host(rule, values, gradients, slots, range);
  const at::Tensor host_values = values.cpu();
  std::vector<at::Tensor> host_slots;
  for (const at::Tensor& slot : slots) host_slots.push_back(slot.cpu());
  update_on_host(rule, host_values, gradients.cpu(), host_slots, range);
  values.copy_(host_values);
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].copy_(host_slots[i]);
}

void custom_update_whole(const CustomRule& rule, const Variable& variable,
                         const at::Tensor& gradients, std::span<const at::Tensor> slots) {
  const auto span_of = [](const at::Tensor& tensor) {
    return std::span(floats(tensor), static_cast<std::size_t>(tensor.numel()));
  };
  // Tensors of the host are not copied.
  const at::Tensor host_values = variable.value.cpu();
  const at::Tensor host_gradients = gradients.cpu();
  std::vector<at::Tensor> host_slots;
  std::vector<std::span<float>> slot_spans;
  for (const at::Tensor& slot : slots) {
    host_slots.push_back(slot.cpu());
    slot_spans.push_back(span_of(host_slots.back()));
  }
  rule.options.update({.learning_rate = rule.learning_rate,
                       .step = rule.step,
                       .rate_share = rule.rate_share,
                       .shape = variable.spec.shape,
                       .values = span_of(host_values),
                       .gradients = span_of(host_gradients),
                       .slots = slot_spans});
  if (variable.value.is_cpu()) return;
  variable.value.copy_(host_values);
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].copy_(host_slots[i]);
}

void custom_update_rows(const CustomRule& rule, const RowGradient& gradient,
                        const at::Tensor& values, std::span<const at::Tensor> slots) {
  const at::Tensor touched = values.index_select(0, gradient.rows);
  std::vector<at::Tensor> touched_slots;
  for (const at::Tensor& slot : slots) touched_slots.push_back(slot.index_select(0, gradient.rows));
  custom_update(rule, touched, gradient.values, touched_slots, {0, touched.numel()});
  values.index_copy_(0, gradient.rows, touched);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i].index_copy_(0, gradient.rows, touched_slots[i]);
  }
}

}  // namespace muster::internal
