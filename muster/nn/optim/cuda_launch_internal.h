#pragma once

#include <c10/core/Device.h>

#include "muster/nn/optim/cuda_update_internal.h"

/// The updates of cuda_update_internal.h on the stream that the calling thread uses for a device.
namespace muster::internal {

void launch_update(const CudaUpdate& update, c10::Device device);
void launch_decay(const CudaUpdate& update, float* gradients, c10::Device device);

}  // namespace muster::internal
