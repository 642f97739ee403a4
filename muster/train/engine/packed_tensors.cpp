#include "muster/train/engine/packed_tensors.h"

#include <ATen/ops/empty.h>
#include <torch/types.h>

#include "muster/nn/kernels/copy_plain.h"
#include "muster/nn/kernels/torch_compat.h"

namespace muster {
namespace {

/// Tensors begin at such addresses, which all types can.
constexpr std::int64_t kAlignment = 16;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

PackedTensors::PackedTensors(const std::vector<at::Tensor>& like, c10::Device device,
                             bool is_for_gpu) {
  std::int64_t bytes = 0;
  for (const at::Tensor& one : like) {
    bytes += aligned(static_cast<std::int64_t>(one.nbytes()));
    is_for_gpu |= one.is_cuda();
  }
  auto options = at::TensorOptions(at::kByte).device(device);
  if (device.is_cpu() && is_for_gpu) options = options.pinned_memory(true);
  memory_ = at::empty({bytes}, options);
  std::int64_t offset = 0;
  for (const at::Tensor& one : like) {
    const auto size = static_cast<std::int64_t>(one.nbytes());
    tensors_.push_back(memory_.narrow(0, offset, size).view(one.scalar_type()).view(one.sizes()));
    offset += aligned(size);
  }
}

void copy_tensors(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
  if (from.empty()) return;
  const torch::NoGradGuard no_grad;
  const c10::Device source = from[0].device();
  const c10::Device target = to[0].device();
  if (source.is_cpu() && target.is_cpu()) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (!kernels::copy_plain(from[i], to[i])) to[i].copy_(from[i]);
    }
    return;
  }
  if (source == target) return compat::copy_all(from, to);
  // A copy between devices waits for both.
  const PackedTensors packed(from.front().is_cuda() ? from : to, source);
  const PackedTensors arrived(from.front().is_cuda() ? from : to, target);
  compat::copy_all(from, packed.tensors());
  arrived.memory().copy_(packed.memory());
  compat::copy_all(arrived.tensors(), to);
}

}  // namespace muster
