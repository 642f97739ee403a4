#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "muster/nn/optim/cuda_launch_internal.h"

namespace muster::internal {
namespace {

template <typename Launch>
void launch_on(c10::Device device, const Launch& launch) {
  const c10::cuda::CUDAGuard on(device);
  if (!launch(c10::cuda::getCurrentCUDAStream(device.index()).stream())) {
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

}  // namespace

void launch_update(const CudaUpdate& update, c10::Device device) {
  launch_on(device, [&](void* stream) { return cuda_update(update, stream); });
}

void launch_decay(const CudaUpdate& update, float* gradients, c10::Device device) {
  launch_on(device, [&](void* stream) { return cuda_add_decay(update, gradients, stream); });
}

}  // namespace muster::internal
