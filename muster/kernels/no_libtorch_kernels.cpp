#include "muster/kernels/libtorch_kernels.h"

namespace muster::kernels {

bool has_libtorch_kernels() { return false; }
void use_libtorch_kernels(bool) {}
bool uses_libtorch_kernels() { return false; }

}  // namespace muster::kernels
