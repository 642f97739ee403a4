#include "muster/base/error.h"
#include "muster/train/compiler/device_kernel.h"

namespace muster::compiler {

struct DeviceKernel::Function {};

DeviceKernel::DeviceKernel(std::shared_ptr<const Function> function, KernelSource source)
    : function_(std::move(function)),
      grid_x_(source.grid_x),
      grid_y_(source.grid_y),
      threads_(source.threads) {}

void DeviceKernel::launch(std::span<const at::Tensor>, std::span<const at::Tensor>) const {
  throw Internal("a kernel is launched by a muster that was built without CUDA");
}

void prepare_device_kernels(const std::vector<KernelSource>&) {
  throw Internal("kernels are compiled by a muster that was built without CUDA");
}

DeviceKernel device_kernel(const KernelSource&) {
  throw Internal("a kernel is compiled by a muster that was built without CUDA");
}

}  // namespace muster::compiler
