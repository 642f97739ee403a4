#include "muster/nn/device/devices.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <optional>

#include "muster/base/error.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/kernels/torch_compat.h"

namespace muster {
namespace {

std::string what_is_there() {
  const int gpus = gpu_count();
  std::vector<std::string> names{"cpu"};
  for (int i = 0; i < gpus; ++i) names.push_back(fmt::format("cuda:{}", i));
  return fmt::format("{}{}", fmt::join(names, ", "),
                     gpus == 0 ? fmt::format(" ({})", why_no_gpu()) : "");
}

std::optional<c10::Device> parse(const std::string& name) {
  try {
    return c10::Device(name);
  } catch (const c10::Error&) {
    return std::nullopt;  // The caller says it in our words.
  }
}

// The GPUs that the process was started with, as `muster launch --gpus` and schedulers name them;
// empty where none are named, or all are hidden.
std::string named_gpus() {
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string names = text == nullptr ? "" : text;
  return names.starts_with('-') || names == "NoDevFiles" ? "" : names;
}

void require_named_gpus() {
  const std::string names = named_gpus();
  if (names.empty()) return;
  throw InvalidArgument(
      "this process was given the GPU {} (CUDA_VISIBLE_DEVICES), but has none: {}; to train on the "
      "CPU leave it out (muster launch --gpus none), or name the device \"cpu\"",
      names, why_no_gpu());
}

c10::Device resolve(const std::string& name, std::string_view where) {
  const auto device = parse(name);
  if (!device || (!device->is_cpu() && !device->is_cuda())) {
    throw InvalidArgument("{} has \"{}\", which is no device; there are: {}", where, name,
                          what_is_there());
  }
  if (device->is_cpu()) return c10::kCPU;
  const int index = device->has_index() ? device->index() : 0;
  if (index >= gpu_count()) {
    throw InvalidArgument("{} has \"{}\", which is not there; there are: {}", where, name,
                          what_is_there());
  }
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace

std::vector<c10::Device> resolve_devices(const std::vector<std::string>& names,
                                         std::string_view where) {
  std::vector<c10::Device> devices;
  devices.reserve(names.size());
  for (const std::string& name : names) devices.push_back(resolve(name, where));
  if (!devices.empty()) return devices;
  for (int i = 0; i < gpu_count(); ++i) {
    devices.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
  }
  if (devices.empty()) {
    require_named_gpus();
    devices.emplace_back(c10::kCPU);
  }
  return devices;
}

std::string describe(std::span<const c10::Device> devices) {
  std::vector<std::string> words;
  for (const c10::Device& device : devices) {
    words.push_back(device.is_cpu() ? "cpu"
                                    : fmt::format("{} ({})", device.str(), gpu_name(device)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

void choose_gpu_kernels(bool deterministic) {
  // cuBLAS reads it when it is first used; what the user has set stays.
  if (deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  auto& context = at::globalContext();
  context.setDeterministicCuDNN(deterministic);
  context.setBenchmarkCuDNN(!deterministic);
  context.setAllowTF32CuDNN(!deterministic);
  context.setAllowTF32CuBLAS(!deterministic);
  compat::use_deterministic_algorithms(deterministic);
}

}  // namespace muster
