#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/nvrtc_stub/ATenNVRTC.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/compiler/device_kernel.h"

namespace muster::compiler {
namespace {

const at::cuda::NVRTC& libraries() { return at::globalContext().getNVRTC(); }

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* words = nullptr;
  libraries().cuGetErrorString(result, &words);
  throw Internal("{} failed: {}", what, words == nullptr ? "unknown error" : words);
}

std::string log_of(nvrtcProgram program) {
  std::size_t size = 0;
  libraries().nvrtcGetProgramLogSize(program, &size);
  std::string log(size, '\0');
  libraries().nvrtcGetProgramLog(program, log.data());
  return log;
}

// Sums and products are rounded one by one, as other compilers of the text do it.
std::string compiled(const std::string& text) {
  const cudaDeviceProp& device = *at::cuda::getCurrentDeviceProperties();
  const std::string arch = fmt::format("--gpu-architecture=sm_{}{}", device.major, device.minor);
  const char* const options[] = {arch.c_str(), "--std=c++17", "--fmad=false"};
  nvrtcProgram program = nullptr;
  if (libraries().nvrtcCreateProgram(&program, text.c_str(), "muster_kernel.cu", 0, nullptr,
                                     nullptr) != NVRTC_SUCCESS) {
    throw Internal("a program of the run-time compiler was not created");
  }
  const nvrtcResult result = libraries().nvrtcCompileProgram(program, 3, options);
  if (result != NVRTC_SUCCESS) {
    const std::string log = log_of(program);
    libraries().nvrtcDestroyProgram(&program);
    throw Internal("a generated kernel does not compile: {}", log);
  }
  std::size_t size = 0;
  libraries().nvrtcGetCUBINSize(program, &size);
  std::string code(size, '\0');
  libraries().nvrtcGetCUBIN(program, code.data());
  libraries().nvrtcDestroyProgram(&program);
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
  std::vector<void*> pointers;
  for (const at::Tensor& input : inputs) pointers.push_back(input.data_ptr());
  for (const at::Tensor& result : results) pointers.push_back(result.data_ptr());
  std::vector<void*> arguments;
  for (void*& pointer : pointers) arguments.push_back(&pointer);
  check(libraries().cuLaunchKernel(function_->function, static_cast<unsigned>(grid_x_),
                                   static_cast<unsigned>(grid_y_), 1,
                                   static_cast<unsigned>(threads_), 1, 1, 0,
                                   at::cuda::getCurrentCUDAStream(), arguments.data(), nullptr),
        "the launch of a generated kernel");
}

DeviceKernel device_kernel(const KernelSource& source) {
  static std::mutex turn;
  static std::map<std::pair<int, std::string>, std::shared_ptr<const DeviceKernel::Function>> known;
  const std::lock_guard lock(turn);
  auto& function = known[{at::cuda::current_device(), source.text}];
  if (function == nullptr) {
    const std::string code = compiled(source.text);
    CUmodule module = nullptr;
    check(libraries().cuModuleLoadData(&module, code.data()), "loading a generated kernel");
    auto loaded = std::make_shared<DeviceKernel::Function>();
    check(libraries().cuModuleGetFunction(&loaded->function, module, "muster_kernel"),
          "finding a generated kernel");
    function = loaded;
  }
  return DeviceKernel(function, source);
}

}  // namespace muster::compiler
