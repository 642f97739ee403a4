#include "muster/nn/kernels/libtorch_kernels.h"

namespace muster::kernels {

bool has_libtorch_kernels() { return false; }
KernelScope::KernelScope(bool) {}
KernelScope::~KernelScope() = default;
bool uses_libtorch_kernels() { return false; }

}  // namespace muster::kernels
