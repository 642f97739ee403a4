#include "muster/train/engine/flat_pool.h"

#include <ATen/ops/empty.h>

namespace muster {

FlatPool::FlatPool(std::int64_t size, c10::Device device, bool is_for_gpu)
    : size_(size),
      options_(at::TensorOptions()
                   .dtype(at::kFloat)
                   .device(device)
                   .pinned_memory(device.is_cpu() && is_for_gpu)) {}

at::Tensor FlatPool::take() {
  if (free_.empty()) return at::empty({size_}, options_);
  at::Tensor flat = std::move(free_.back());
  free_.pop_back();
  return flat;
}

}  // namespace muster
