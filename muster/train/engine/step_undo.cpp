#include "muster/train/engine/step_undo.h"

#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <set>

#include "muster/nn/kernels/torch_compat.h"

namespace muster {
namespace {

// All of the memory that a tensor is a part of. As floats where that is possible, which are copied
// in larger pieces than bytes are; their bits do not change on the way.
at::Tensor whole_memory(const at::Tensor& part) {
  const auto bytes = static_cast<std::int64_t>(part.storage().nbytes());
  const bool fits = bytes % 4 == 0;
  const at::Tensor whole = at::empty({0}, part.options().dtype(fits ? at::kFloat : at::kByte));
  return whole.set_(part.storage(), 0, {fits ? bytes / 4 : bytes}, {1});
}

}  // namespace

StepUndo::StepUndo(const std::vector<at::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  std::set<const void*> seen;
  for (const at::Tensor& tensor : tensors) {
    if (!seen.insert(tensor.storage().unsafeGetStorageImpl()).second) continue;
    Copies& copies = tensor.is_cpu() ? on_host_ : on_device_;
    copies.now.push_back(whole_memory(tensor.detach()));
    copies.kept.push_back(copies.now.back().clone());
  }
}

void StepUndo::keep_on_host() {
  const torch::NoGradGuard no_grad;
  compat::copy_all(on_host_.now, on_host_.kept);
}

void StepUndo::keep_on_device() {
  const torch::NoGradGuard no_grad;
  compat::copy_all(on_device_.now, on_device_.kept);
}

void StepUndo::restore() {
  const torch::NoGradGuard no_grad;
  compat::copy_all(on_host_.kept, on_host_.now);
  compat::copy_all(on_device_.kept, on_device_.now);
}

}  // namespace muster
