#pragma once

/// Launches kernels on two streams, and throws where CUDA refuses.

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "muster/nn/kernels/cuda/residual_plan_internal.h"

namespace muster::residual {

inline void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA could not ") + what + ": " +
                           cudaGetErrorString(error));
}

class CudaLauncher {
 public:
  /// The events belong to the caller and are recorded again.
  CudaLauncher(cudaStream_t main, cudaStream_t side, cudaEvent_t forked, cudaEvent_t joined)
      : main_(main), side_(side), forked_(forked), joined_(joined) {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "tell the current device");
    check_cuda(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device),
               "count multiprocessors");
  }

  template <class Arguments>
  void launch(Stream stream, Begin begin, void (*kernel)(Arguments), int blocks, int rows,
              int threads, int shared_bytes, const Arguments& arguments) {
    constexpr int kAllowedAnyway = 48 * 1024;
    if (shared_bytes > kAllowedAnyway) {
      check_cuda(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
          "give a kernel its shared memory");
    }
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(rows));
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
    config.stream = stream == Stream::kMain ? main_ : side_;
    config.attrs = &early;
    config.numAttrs = begin == Begin::kEarly ? 1 : 0;
    check_cuda(cudaLaunchKernelEx(&config, kernel, arguments), "launch a kernel");
  }

  /// The side stream resumes where the main stream is.
  void fork() { order(main_, side_, forked_); }
  /// The main stream waits for the side stream.
  void join() { order(side_, main_, joined_); }
  int multiprocessors() const { return multiprocessors_; }

 private:
  static void order(cudaStream_t first, cudaStream_t then, cudaEvent_t event) {
    check_cuda(cudaEventRecord(event, first), "record an event");
    check_cuda(cudaStreamWaitEvent(then, event, 0), "wait for an event");
  }

  cudaStream_t main_;
  cudaStream_t side_;
  cudaEvent_t forked_;
  cudaEvent_t joined_;
  int multiprocessors_ = 0;
};

}  // namespace muster::residual
