#include "muster/base/error.h"
#include "muster/nn/kernels/residual_network.h"

namespace muster::kernels {

bool residual_network_takes(const at::Tensor&, const ResidualNetwork&) { return false; }

ResidualNetworkForward residual_network(const at::Tensor&, const ResidualNetwork&) {
  throw Unimplemented("this build of muster has no CUDA kernels for residual networks");
}

void add_residual_network_gradients(const at::Tensor&, const at::Tensor&,
                                    const ResidualNetworkForward&, const ResidualNetwork&,
                                    const ResidualNetworkGradients&,
                                    const std::function<void(std::size_t)>&) {
  throw Unimplemented("this build of muster has no CUDA kernels for residual networks");
}

}  // namespace muster::kernels
