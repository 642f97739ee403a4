#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace muster {

/// Many small tensors side by side in one piece of memory, so that it takes one copy to bring all
/// of them elsewhere.
class PackedTensors {
 public:
  /// Memory for such tensors, all on one device, on another. In host memory that a GPU copies from
  /// and to, as it does for tensors of its own, it is pinned.
  PackedTensors(const std::vector<at::Tensor>& like, c10::Device device, bool is_for_gpu = false);

  /// Bytes.
  const at::Tensor& memory() const { return memory_; }
  /// By tensor, of its type and shape.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  at::Tensor memory_;
  std::vector<at::Tensor> tensors_;
};

/// Copies each tensor into the one at its place in `to`. All of a list are on one device.
void copy_tensors(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to);

}  // namespace muster
