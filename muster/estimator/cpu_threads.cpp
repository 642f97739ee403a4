#include "muster/estimator/cpu_threads.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <torch/version.h>

namespace muster {
namespace {

// Which BLAS is loaded is the system's choice at run time, so its functions are looked up by name.
template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

std::string cpu_capability() {
  constexpr std::string_view kLabel = "CPU capability usage: ";
  const std::string config = at::show_config();
  const auto place = config.find(kLabel);
  if (place == std::string::npos) return "unknown";
  const auto start = place + kLabel.size();
  return config.substr(start, config.find('\n', start) - start);
}

}  // namespace

void set_cpu_threads(int threads) {
  at::set_num_threads(threads);
  static auto* const set_openblas = find<void(int)>("openblas_set_num_threads");
  static auto* const get_openblas = find<int()>("openblas_get_num_threads");
  // Setting it takes OpenBLAS's lock and may start threads: only when it differs.
  if (set_openblas != nullptr && (get_openblas == nullptr || get_openblas() != threads)) {
    set_openblas(threads);
  }
}

std::string arithmetic_fingerprint() {
  auto* const core = find<const char*()>("openblas_get_corename");
  return fmt::format("libtorch {}, CPU {}, BLAS core {}", TORCH_VERSION, cpu_capability(),
                     core == nullptr ? "unknown" : core());
}

}  // namespace muster
