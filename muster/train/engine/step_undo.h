#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace muster {

/// The values that tensors had before a step, for a step that is void after it began. Memory that
/// several tensors are parts of is kept once, whole. Belongs to the loop's thread.
class StepUndo {
 public:
  explicit StepUndo(const std::vector<at::Tensor>& tensors);

  /// Keeps the tensors in host memory, now.
  void keep_on_host();
  /// Keeps the others: given to this thread's stream, and can be captured.
  void keep_on_device();
  /// All are as they were kept.
  void restore();

 private:
  struct Copies {
    std::vector<at::Tensor> now{};
    std::vector<at::Tensor> kept{};
  };

  Copies on_host_;
  Copies on_device_;
};

}  // namespace muster
