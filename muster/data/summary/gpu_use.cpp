#include "muster/data/summary/gpu_use.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace muster {
namespace {

// NVML's types and functions, as its manual has them: its header comes with the CUDA toolkit alone.
using NvmlDevice = void*;
struct NvmlUtilization {
  unsigned gpu;
  unsigned memory;
};
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
constexpr int kNvmlSuccess = 0;
constexpr unsigned kMostGpus = 64;

struct LibraryCloser {
  void operator()(void* library) const { ::dlclose(library); }
};

// The words of CUDA_VISIBLE_DEVICES; nothing where it is not set.
std::optional<std::vector<std::string>> visible_devices() {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) return std::nullopt;
  std::vector<std::string> words;
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = rest.find(',');
    words.emplace_back(rest.substr(0, end));
    rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
  }
  return words;
}

}  // namespace

struct GpuUse::Impl {
  std::unique_ptr<void, LibraryCloser> library{
      ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  int (*init)() = function<int()>("nvmlInit_v2");
  int (*shutdown)() = function<int()>("nvmlShutdown");
  int (*count)(unsigned*) = function<int(unsigned*)>("nvmlDeviceGetCount_v2");
  int (*by_index)(unsigned, NvmlDevice*) =
      function<int(unsigned, NvmlDevice*)>("nvmlDeviceGetHandleByIndex_v2");
  int (*by_uuid)(const char*, NvmlDevice*) =
      function<int(const char*, NvmlDevice*)>("nvmlDeviceGetHandleByUUID");
  int (*index_of)(NvmlDevice,
                  unsigned*) = function<int(NvmlDevice, unsigned*)>("nvmlDeviceGetIndex");
  int (*utilization)(NvmlDevice, NvmlUtilization*) =
      function<int(NvmlDevice, NvmlUtilization*)>("nvmlDeviceGetUtilizationRates");
  int (*memory)(NvmlDevice,
                NvmlMemory*) = function<int(NvmlDevice, NvmlMemory*)>("nvmlDeviceGetMemoryInfo");
  int (*power)(NvmlDevice,
               unsigned*) = function<int(NvmlDevice, unsigned*)>("nvmlDeviceGetPowerUsage");
  bool is_open = has_all() && init() == kNvmlSuccess;
  std::vector<std::pair<unsigned, NvmlDevice>> devices = visible();

  ~Impl() {
    if (is_open) shutdown();
  }

  template <typename Signature>
  Signature* function(const char* name) const {
    if (library == nullptr) return nullptr;
    return reinterpret_cast<Signature*>(::dlsym(library.get(), name));
  }

  bool has_all() const {
    return init != nullptr && shutdown != nullptr && count != nullptr && by_index != nullptr &&
           by_uuid != nullptr && index_of != nullptr && utilization != nullptr &&
           memory != nullptr && power != nullptr;
  }

  // Null where there is no such device.
  NvmlDevice device_of(const std::string& word) const {
    NvmlDevice device = nullptr;
    unsigned index = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
    const bool is_index = error == std::errc() && end == word.data() + word.size();
    const int status = is_index ? by_index(index, &device) : by_uuid(word.c_str(), &device);
    return status == kNvmlSuccess ? device : nullptr;
  }

  std::vector<std::pair<unsigned, NvmlDevice>> visible() const {
    unsigned all = 0;
    if (!is_open || count(&all) != kNvmlSuccess) return {};
    auto words = visible_devices();
    if (!words) {
      words.emplace();
      for (unsigned i = 0; i < all && i < kMostGpus; ++i) words->push_back(std::to_string(i));
    }
    std::vector<std::pair<unsigned, NvmlDevice>> found;
    for (const std::string& word : *words) {
      NvmlDevice device = device_of(word);
      unsigned index = 0;
      // CUDA itself sees none of those that follow a word that names no device.
      if (device == nullptr || index_of(device, &index) != kNvmlSuccess) break;
      found.emplace_back(index, device);
    }
    return found;
  }

  GpuLoad load_of(unsigned index, NvmlDevice device) const {
    GpuLoad load{.index = index};
    NvmlUtilization use{};
    if (utilization(device, &use) == kNvmlSuccess) load.busy_percent = use.gpu;
    NvmlMemory bytes{};
    if (memory(device, &bytes) == kNvmlSuccess) {
      load.memory_bytes = static_cast<double>(bytes.used);
    }
    unsigned milliwatts = 0;
    if (power(device, &milliwatts) == kNvmlSuccess) load.watts = milliwatts / 1000.0;
    return load;
  }
};

GpuUse::GpuUse() : impl_(std::make_unique<Impl>()) {}
GpuUse::~GpuUse() = default;

std::vector<GpuLoad> GpuUse::read() const {
  std::vector<GpuLoad> loads;
  for (const auto& [index, device] : impl_->devices) loads.push_back(impl_->load_of(index, device));
  return loads;
}

}  // namespace muster
