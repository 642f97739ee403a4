#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/train/compiler/device_kernel.h"
#include "muster/train/compiler/kernel_cache.h"

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

constexpr const char* kOptions[] = {"--std=c++17"};

std::string compiled(const std::string& text, const std::string& arch) {
  const char* const options[] = {arch.c_str(), kOptions[0]};
  nvrtcProgram program = nullptr;
  if (MUSTER_NVRTC(nvrtcCreateProgram)(&program, text.c_str(), "muster_kernel.cu", 0, nullptr,
                                       nullptr) != NVRTC_SUCCESS) {
    throw Internal("a program of the run-time compiler was not created");
  }
  if (MUSTER_NVRTC(nvrtcCompileProgram)(program, 2, options) != NVRTC_SUCCESS) {
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

// Compiler's version and options, which decide about a kernel's code beside its text.
std::string compiler_name(const std::string& arch) {
  int major = 0;
  int minor = 0;
  MUSTER_NVRTC(nvrtcVersion)(&major, &minor);
  return fmt::format("nvrtc {}.{} {} {}\n", major, minor, arch, kOptions[0]);
}

// From the cache, or compiled and kept there.
std::string code_of(const std::string& text, const std::string& arch, const std::string& name) {
  static const KernelCache cache(KernelCache::default_folder());
  if (auto found = cache.find(name + text)) return std::move(*found);
  std::string code = compiled(text, arch);
  cache.keep(name + text, code);
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

namespace {

/// Kernels of this process, by GPU and text.
class LoadedKernels {
 public:
  using Function = std::shared_ptr<const DeviceKernel::Function>;

  Function find(int device, const std::string& text) {
    const std::lock_guard lock(turn_);
    const auto found = known_.find({device, text});
    return found == known_.end() ? nullptr : found->second;
  }

  Function load(int device, const std::string& text, const std::string& code) {
    CUmodule module = nullptr;
    check(MUSTER_DRIVER(cuModuleLoadData)(&module, code.data()), "loading a generated kernel");
    auto loaded = std::make_shared<DeviceKernel::Function>();
    check(MUSTER_DRIVER(cuModuleGetFunction)(&loaded->function, module, "muster_kernel"),
          "finding a generated kernel");
    const std::lock_guard lock(turn_);
    return known_.try_emplace({device, text}, std::move(loaded)).first->second;
  }

 private:
  std::mutex turn_;
  std::map<std::pair<int, std::string>, Function> known_;
};

LoadedKernels& loaded_kernels() {
  static LoadedKernels kernels;
  return kernels;
}

}  // namespace

void prepare_device_kernels(const std::vector<KernelSource>& sources) {
  const int device = current_device();
  std::set<std::string> texts;
  for (const KernelSource& source : sources) {
    if (loaded_kernels().find(device, source.text) == nullptr) texts.insert(source.text);
  }
  if (texts.empty()) return;
  const std::vector<std::string> wanted(texts.begin(), texts.end());
  const std::string arch = architecture();
  const std::string name = compiler_name(arch);
  std::vector<std::string> codes(wanted.size());
  for_each_in_parallel(wanted.size(),
                       [&](std::size_t i) { codes[i] = code_of(wanted[i], arch, name); });
  for (std::size_t i = 0; i < wanted.size(); ++i)
    loaded_kernels().load(device, wanted[i], codes[i]);
}

DeviceKernel device_kernel(const KernelSource& source) {
  const int device = current_device();
  auto function = loaded_kernels().find(device, source.text);
  if (function == nullptr) {
    prepare_device_kernels({source});
    function = loaded_kernels().find(device, source.text);
  }
  return DeviceKernel(function, source);
}

}  // namespace muster::compiler
