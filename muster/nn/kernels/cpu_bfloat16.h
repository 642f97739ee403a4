#pragma once

#include <string>

namespace muster::kernels {

/// Properties that decide how fast libtorch computes with bfloat16 on a CPU.
struct CpuBfloat16 {
  bool is_arm64 = false;
  /// Products of bfloat16 in one instruction: `bf16` on arm64, `avx512_bf16` on x86-64.
  bool has_instructions = false;
  /// Whether oneDNN is built in and on: libtorch's fast kernels for bfloat16 are its.
  bool uses_onednn = false;
  int libtorch_major = 1;
};

/// Properties of this process, as it is now.
CpuBfloat16 cpu_bfloat16();

/// Why bfloat16 takes many times as long as float32 there, as a clause; empty where it does not.
std::string bfloat16_obstacle(const CpuBfloat16& cpu);

}  // namespace muster::kernels
