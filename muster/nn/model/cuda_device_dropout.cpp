#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "muster/nn/model/device_dropout_internal.h"

namespace muster::internal {

bool fill_dropout_mask(const DropoutDraw& draw, std::uint32_t dropped_of_65536,
                       const at::Tensor& mask) {
  const c10::cuda::CUDAGuard on(mask.device());
  const auto stream = c10::cuda::getCurrentCUDAStream(mask.device().index());
  if (!cuda_dropout_mask(draw, dropped_of_65536, mask.numel(), mask.data_ptr<std::uint8_t>(),
                         stream.stream())) {
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return true;
}

}  // namespace muster::internal
