#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "muster/train/compiler/kernel_source.h"

namespace muster::compiler {

/// A kernel on this thread's current GPU. Its twin without CUDA throws Internal.
class DeviceKernel {
 public:
  struct Function;
  DeviceKernel(std::shared_ptr<const Function> function, KernelSource source);
  /// Gives it to this thread's stream: pointers of the inputs, then of the results.
  void launch(std::span<const at::Tensor> inputs, std::span<const at::Tensor> results) const;

 private:
  std::shared_ptr<const Function> function_;
  std::int64_t grid_x_;
  std::int64_t grid_y_;
  std::int64_t threads_;
};

/// Has the kernels ready for the current GPU: those that no process has compiled before are
/// compiled at once, in as many threads as there are processors. See KernelCache.
void prepare_device_kernels(const std::vector<KernelSource>& sources);

/// Compiles it for the current GPU; one text is compiled once in a process. Throws Internal with
/// the compiler's words where it does not take the text.
DeviceKernel device_kernel(const KernelSource& source);

}  // namespace muster::compiler
