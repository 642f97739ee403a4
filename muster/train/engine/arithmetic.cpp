#include "muster/train/engine/arithmetic.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "muster/base/thread_pool.h"
#include "muster/nn/kernels/libtorch_kernels.h"
#include "muster/nn/kernels/parallel_for.h"

namespace muster {
namespace {

// Functions of the BLAS are looked up by name, since it is not known before run time which one it
// is.
template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

// libtorch 1.13 tells this in its report alone.
std::string cpu_capability() {
  constexpr std::string_view kLabel = "CPU capability usage: ";
  const std::string config = at::show_config();
  const auto place = config.find(kLabel);
  if (place == std::string::npos) return "unknown";
  const auto start = place + kLabel.size();
  return config.substr(start, config.find('\n', start) - start);
}

// The file that matrix products come from, with the links of Debian's alternatives resolved.
std::string blas_file() {
  void* const symbol = ::dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info info{};
  if (symbol == nullptr || ::dladdr(symbol, &info) == 0) return "built into libtorch";
  std::error_code unresolved;  // Then the path is shown as it is.
  const auto resolved = std::filesystem::canonical(info.dli_fname, unresolved);
  return unresolved ? info.dli_fname : resolved.string();
}

void set_openblas_threads(int threads) {
  static auto* const set = find<void(int)>("openblas_set_num_threads");
  static auto* const get = find<int()>("openblas_get_num_threads");
  // Setting it takes OpenBLAS's lock and may start threads: only when it differs.
  if (set != nullptr && (get == nullptr || get() != threads)) set(threads);
}

}  // namespace

std::string Arithmetic::fingerprint() const {
  return fmt::format("libtorch {}, CPU {}, BLAS {} {}{}{}", libtorch, cpu_capability, blas,
                     blas_core, own_kernels ? ", kernels of muster" : "",
                     residual_units.empty() ? "" : ", residual units of muster " + residual_units);
}

Arithmetic numerics_fingerprint(bool own_cpu_kernels) {
  Arithmetic result{.libtorch = TORCH_VERSION,
                    .cpu_capability = cpu_capability(),
                    .own_kernels = own_cpu_kernels && kernels::has_libtorch_kernels()};
  if (own_cpu_kernels) result.residual_units = kernels::residual_unit_loops();
  if (auto* const config = find<const char*()>("openblas_get_config")) {
    // "OpenBLAS 0.3.21 NO_AFFINITY ...": the first two words.
    const std::string text = config();
    result.blas = text.substr(0, text.find(' ', text.find(' ') + 1));
    if (auto* const core = find<const char*()>("openblas_get_corename")) result.blas_core = core();
  } else if (at::get_mkl_version().find("not found") == std::string::npos) {
    result.blas = at::get_mkl_version();
  } else {
    result.blas = blas_file();
    result.reference_blas = result.blas.find("/blas/libblas") != std::string::npos;
  }
  return result;
}

int default_cpu_threads() {
  auto threads = static_cast<int>(ThreadPool::available_processors());
  for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    // The first number of a list, which has one a level of nesting, counts.
    const char* const text = std::getenv(variable);
    const int told = text == nullptr ? 0 : std::atoi(text);
    if (told > 0) threads = std::min(threads, told);
  }
  return threads;
}

int threads_for_model(std::span<const ModuleVariable> variables, int most) {
  constexpr std::int64_t kProductsPerThread = std::int64_t{1} << 17;
  // A filter is used at every place of an image; this many at the least make it worth a thread.
  constexpr std::int64_t kPlaces = 64;
  std::int64_t products = 0;
  for (const ModuleVariable& variable : variables) {
    const at::Tensor& tensor = variable.tensor;
    if (!variable.trainable || variable.sparse || tensor.dim() < 2) continue;
    products += tensor.numel() * (tensor.dim() > 2 ? kPlaces : 1);
  }
  return static_cast<int>(std::clamp<std::int64_t>(products / kProductsPerThread, 1, most));
}

int update_threads(std::int64_t elements) {
  constexpr std::int64_t kElementsPerThread = 1 << 20;
  const auto processors = static_cast<std::int64_t>(ThreadPool::available_processors());
  return static_cast<int>(std::clamp<std::int64_t>(elements / kElementsPerThread, 1, processors));
}

void set_cpu_threads(int threads) {
  at::set_num_threads(threads);
  set_openblas_threads(threads);
}

void use_cpu_threads(int threads) {
  kernels::set_threads_of_this(threads);
  set_openblas_threads(threads);
}

}  // namespace muster
