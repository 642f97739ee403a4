#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/train/compiler/device_kernel.h"

#ifndef MUSTER_NVRTC_LIBRARY
#define MUSTER_NVRTC_LIBRARY "libnvrtc.so"
#endif

namespace muster::compiler {
namespace {

/// A library that is opened when the first kernel is generated, and stays open.
class Library {
 public:
  explicit Library(std::vector<std::string> names) {
    for (const std::string& name : names) {
      handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
    }
    throw Unavailable("no {} can be opened, which generated kernels need: {}", names.front(),
                      dlerror());
  }

  template <typename Function>
  Function* find(const char* name) const {
    void* const found = dlsym(handle_, name);
    if (found == nullptr) throw Unavailable("the library has no {}", name);
    return reinterpret_cast<Function*>(found);
  }

 private:
  void* handle_ = nullptr;
};

const Library& driver() {
  static const Library library({"libcuda.so.1"});
  return library;
}

// That of the runtime that this was built with.
const Library& compiler() {
  static const Library library(
      {fmt::format("libnvrtc.so.{}", CUDART_VERSION / 1000), "libnvrtc.so", MUSTER_NVRTC_LIBRARY});
  return library;
}

#define MUSTER_DRIVER(name) driver().find<decltype(name)>(#name)
#define MUSTER_NVRTC(name) compiler().find<decltype(name)>(#name)

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  throw Internal("{} failed: CUDA's driver says {}", what, static_cast<int>(result));
}

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw Internal("{} failed: {}", what, cudaGetErrorString(result));
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current GPU");
  return device;
}

std::string architecture() {
  int major = 0;
  int minor = 0;
  const int device = current_device();
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking a GPU");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking a GPU");
  return fmt::format("--gpu-architecture=sm_{}{}", major, minor);
}

std::string log_of(nvrtcProgram program) {
  std::size_t size = 0;
  MUSTER_NVRTC(nvrtcGetProgramLogSize)(program, &size);
  std::string log(size, '\0');
  MUSTER_NVRTC(nvrtcGetProgramLog)(program, log.data());
  return log;
}

// Sums and products are rounded one by one, as other compilers of the text do it.
std::string compiled(const std::string& text) {
  const std::string arch = architecture();
  const char* const options[] = {arch.c_str(), "--std=c++17", "--fmad=false"};
  nvrtcProgram program = nullptr;
  if (MUSTER_NVRTC(nvrtcCreateProgram)(&program, text.c_str(), "muster_kernel.cu", 0, nullptr,
                                       nullptr) != NVRTC_SUCCESS) {
    throw Internal("a program of the run-time compiler was not created");
  }
  if (MUSTER_NVRTC(nvrtcCompileProgram)(program, 3, options) != NVRTC_SUCCESS) {
    const std::string log = log_of(program);
    MUSTER_NVRTC(nvrtcDestroyProgram)(&program);
    throw Internal("a generated kernel does not compile: {}", log);
  }
  std::size_t size = 0;
  MUSTER_NVRTC(nvrtcGetCUBINSize)(program, &size);
  std::string code(size, '\0');
  MUSTER_NVRTC(nvrtcGetCUBIN)(program, code.data());
  MUSTER_NVRTC(nvrtcDestroyProgram)(&program);
  return code;
}

}  // namespace

// Modules stay loaded while the process lives: captured work may hold their kernels.
struct DeviceKernel::Function {
  CUfunction function = nullptr;
};

DeviceKernel::DeviceKernel(std::shared_ptr<const Function> function, KernelSource source)
    : function_(std::move(function)),
      grid_x_(source.grid_x),
      grid_y_(source.grid_y),
      threads_(source.threads) {}

void DeviceKernel::launch(std::span<const at::Tensor> inputs,
                          std::span<const at::Tensor> results) const {
  static const auto launch_kernel = MUSTER_DRIVER(cuLaunchKernel);
  std::vector<void*> pointers;
  for (const at::Tensor& input : inputs) pointers.push_back(input.data_ptr());
  for (const at::Tensor& result : results) pointers.push_back(result.data_ptr());
  std::vector<void*> arguments;
  for (void*& pointer : pointers) arguments.push_back(&pointer);
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  check(launch_kernel(function_->function, static_cast<unsigned>(grid_x_),
                      static_cast<unsigned>(grid_y_), 1, static_cast<unsigned>(threads_), 1, 1, 0,
                      stream, arguments.data(), nullptr),
        "the launch of a generated kernel");
}

DeviceKernel device_kernel(const KernelSource& source) {
  static std::mutex turn;
  static std::map<std::pair<int, std::string>, std::shared_ptr<const DeviceKernel::Function>> known;
  const std::lock_guard lock(turn);
  auto& function = known[{current_device(), source.text}];
  if (function == nullptr) {
    const std::string code = compiled(source.text);
    CUmodule module = nullptr;
    check(MUSTER_DRIVER(cuModuleLoadData)(&module, code.data()), "loading a generated kernel");
    auto loaded = std::make_shared<DeviceKernel::Function>();
    check(MUSTER_DRIVER(cuModuleGetFunction)(&loaded->function, module, "muster_kernel"),
          "finding a generated kernel");
    function = loaded;
  }
  return DeviceKernel(function, source);
}

}  // namespace muster::compiler
