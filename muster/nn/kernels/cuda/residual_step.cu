#include "muster/nn/kernels/cuda/residual_step.h"

#include "muster/nn/kernels/cuda/platform_cuda.cuh"

#include "muster/nn/kernels/cuda/cuda_launcher_internal.cuh"

namespace muster::residual {
namespace {

CudaLauncher launcher_on(const Streams& streams) {
  return CudaLauncher(
      static_cast<cudaStream_t>(streams.main), static_cast<cudaStream_t>(streams.side),
      static_cast<cudaEvent_t>(streams.forked), static_cast<cudaEvent_t>(streams.joined));
}

}  // namespace

bool runs_here() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, norm_gradients) == cudaSuccess) return true;
  cudaGetLastError();  // Handled here: clears the error for later calls.
  return false;
}

std::size_t workspace_bytes(const Shape& shape) { return Workspace(shape, nullptr).bytes(); }

void start_forward(const Shape& shape, const Parameters& parameters, const void* images,
                   void* workspace, float* logits, const Streams& streams) {
  CudaLauncher launcher = launcher_on(streams);
  Step<CudaLauncher>(shape, parameters, workspace, launcher).forward(images, logits);
}

void start_backward(const Shape& shape, const Parameters& parameters, const void* images,
                    void* workspace, const float* logits_gradient,
                    const ParameterGradients& gradients, const Streams& streams,
                    const std::function<void(int first_layer)>& written) {
  CudaLauncher launcher = launcher_on(streams);
  Step<CudaLauncher>(shape, parameters, workspace, launcher)
      .backward(images, logits_gradient, gradients, written);
}

}  // namespace muster::residual
