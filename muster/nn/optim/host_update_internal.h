#pragma once

#include "muster/nn/optim/cuda_update_internal.h"

/// The kernels of cuda_update_internal.h over host memory: so that whatever is captured
/// for a GPU can be tried, and compared with the loops of flat_kernels_internal.h, without one.
namespace muster::internal {

void host_update(const CudaUpdate& update);
void host_add_decay(const CudaUpdate& update, float* gradients);

}  // namespace muster::internal
