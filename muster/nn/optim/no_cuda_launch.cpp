#include "muster/base/error.h"
#include "muster/nn/optim/cuda_launch_internal.h"

namespace muster::internal {
namespace {

[[noreturn]] void refuse(c10::Device device) {
  throw Internal("variables on {} are updated by a muster that was built without CUDA",
                 device.str());
}

}  // namespace

void launch_update(const CudaUpdate&, c10::Device device) { refuse(device); }
void launch_decay(const CudaUpdate&, float*, c10::Device device) { refuse(device); }

}  // namespace muster::internal
