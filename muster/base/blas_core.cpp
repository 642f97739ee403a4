#include "muster/base/blas_core.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "muster/base/asks_for_help_internal.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster {
namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

// OpenBLAS's names for processors without AVX.
constexpr std::array<std::string_view, 16> kOldCores{
    "Katmai",       "Coppermine", "Northwood",  "Prescott", "Banias", "Atom",
    "Core2",        "Penryn",     "Dunnington", "Nehalem",  "Athlon", "Opteron",
    "Opteron_SSE3", "Barcelona",  "Bobcat",     "Nano"};

bool has_all(std::string_view flags, std::initializer_list<std::string_view> wanted) {
  const std::string padded = " " + std::string(flags) + " ";
  return std::ranges::all_of(wanted, [&](std::string_view flag) {
    return padded.find(" " + std::string(flag) + " ") != std::string::npos;
  });
}

std::string processor_flags() {
  const std::string text = read_file("/proc/cpuinfo");
  const auto begin = text.find("\nflags");
  if (begin == std::string::npos) return "";
  const auto colon = text.find(':', begin);
  return text.substr(colon + 1, text.find('\n', colon) - colon - 1);
}

}  // namespace

std::string better_blas_core(std::string_view core, std::string_view flags) {
  if (std::ranges::find(kOldCores, core) == kOldCores.end()) return "";
  if (has_all(flags, {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}))
    return "SkylakeX";
  return has_all(flags, {"avx2", "fma"}) ? "Haswell" : "";
}

std::string better_blas_core() {
  // Looked up by name, since it is not known before run time which BLAS there is.
  using NameOfCore = const char*();
  auto* const core = reinterpret_cast<NameOfCore*>(::dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (core == nullptr) return "";
  const std::string_view name = core();
  return better_blas_core(name, processor_flags());
}

void internal::choose_blas_core(char** arguments) {
  if (std::getenv(kCoreVariable) != nullptr || asks_for_help(arguments)) return;
  const std::string core = better_blas_core();
  if (core.empty()) return;
  ::setenv(kCoreVariable, core.c_str(), /*overwrite=*/1);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  ::execv(program.c_str(), arguments);
  throw_errno(errno, "starting " + program + " with " + kCoreVariable + "=" + core);
}

}  // namespace muster
