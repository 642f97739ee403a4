#include "muster/nn/kernels/cpu_bfloat16.h"

#include <ATen/Context.h>
#include <torch/version.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace muster::kernels {
namespace {

bool has_bfloat16_instructions() {
#if defined(__aarch64__)
  constexpr unsigned long kHwcap2Bf16 = 1UL << 14;  // Linux's HWCAP2_BF16; old headers lack it.
  return (::getauxval(AT_HWCAP2) & kHwcap2Bf16) != 0;
#elif defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace

CpuBfloat16 cpu_bfloat16() {
  CpuBfloat16 cpu{.has_instructions = has_bfloat16_instructions(),
                  .uses_onednn = at::globalContext().userEnabledMkldnn() && at::hasMKLDNN(),
                  .libtorch_major = TORCH_VERSION_MAJOR};
#if defined(__aarch64__)
  cpu.is_arm64 = true;
#endif
  return cpu;
}

std::string bfloat16_obstacle(const CpuBfloat16& cpu) {
  if (!cpu.has_instructions) {
    return cpu.is_arm64 ? "this processor has no instructions for it (bf16)"
                        : "this processor has no instructions for it (avx512_bf16)";
  }
  if (cpu.is_arm64 && cpu.libtorch_major < 2) {
    return "libtorch before 2.0 has no fast kernels for it on arm64";
  }
  if (!cpu.uses_onednn) return "oneDNN, which has libtorch's fast kernels for it, is off";
  return "";
}

}  // namespace muster::kernels
