#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace muster {

/// Memory for flat gradients on one device, which step after step uses again.
class FlatPool {
 public:
  /// `is_for_gpu`: in host memory a GPU writes them, which it does faster where they are pinned.
  FlatPool(std::int64_t size, c10::Device device, bool is_for_gpu);

  /// A flat tensor, whose contents are unspecified.
  at::Tensor take();
  void give_back(at::Tensor flat) { free_.push_back(std::move(flat)); }

 private:
  const std::int64_t size_;
  const at::TensorOptions options_;
  std::vector<at::Tensor> free_;
};

}  // namespace muster
