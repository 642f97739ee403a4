#include "muster/train/engine/replica_buffers.h"

#include <torch/types.h>

#include "muster/nn/kernels/torch_compat.h"

namespace muster {

ReplicaBuffers::ReplicaBuffers(const Model& model, const DeviceSlots& slots, bool on_gpus)
    : is_waited_for_(!slots.sums_are_away()), current_(model.buffers()) {
  if (!slots.has_copies()) {
    for (const at::Tensor& buffer : current_) kept_.push_back(buffer.detach().clone());
    return;
  }
  const torch::NoGradGuard no_grad;
  packed_current_.emplace(current_, slots.primary(), on_gpus);
  for (std::size_t i = 0; i < current_.size(); ++i) {
    const at::Tensor& memory = packed_current_->tensors()[i];
    memory.copy_(current_[i]);
    current_[i].set_data(memory);
  }
  packed_kept_.emplace(current_, slots.primary(), on_gpus);
  kept_ = packed_kept_->tensors();
  keep();
}

void ReplicaBuffers::keep() {
  if (packed_kept_) {
    packed_kept_->memory().copy_(packed_current_->memory());
  } else {
    copy_tensors(current_, kept_);
  }
}

void ReplicaBuffers::discard() { copy_tensors(kept_, current_); }

void ReplicaBuffers::bring(const PackedTensors& from, const Tower& tower) {
  if (from.tensors().empty()) return;
  const torch::NoGradGuard no_grad;
  tower.packed()->memory().copy_(from.memory(),
                                 /*non_blocking=*/tower.slot().device.is_cuda());
  compat::copy_all(tower.packed()->tensors(), tower.buffers());
}

void ReplicaBuffers::bring_to(const Tower& tower, std::int64_t replica) const {
  if (tower.slot().is_away) {
    bring(replica == 0 ? *packed_current_ : *packed_kept_, tower);
  } else if (replica != 0) {
    copy_tensors(kept_, tower.buffers());
  }
}

void ReplicaBuffers::take_from(const Tower& tower) {
  if (tower.buffers().empty() || !tower.slot().is_away) return;
  const torch::NoGradGuard no_grad;
  compat::copy_all(tower.buffers(), tower.packed()->tensors());
  packed_current_->memory().copy_(tower.packed()->memory(), /*non_blocking=*/!is_waited_for_);
}

}  // namespace muster
