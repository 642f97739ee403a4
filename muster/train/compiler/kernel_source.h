#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "muster/train/compiler/program.h"

namespace muster::compiler {

/// A program as CUDA's C++, and how it is launched.
struct KernelSource {
  std::string text;
  std::int64_t grid_x = 1;
  std::int64_t grid_y = 1;
  std::int64_t threads = 1;
};

/// The kernel `muster_kernel`, whose parameters are pointers: the inputs, then the outputs. It
/// includes nothing. Compiled by a C++ compiler with MUSTER_ON_HOST defined, the same text has a
/// function `muster_run(void** pointers, long grid_x, long grid_y)` that runs it with one thread a
/// block, for tests.
KernelSource source_of(const Program& program);

/// What generated kernels begin with: element types `f32`, `bf16`, `f16`, `flag`, get() and put(),
/// and the words for blocks and threads on a device and on the host. `threads` are those of a
/// block.
std::string kernel_prelude(std::int64_t threads);
/// The name of a type's elements there.
const char* element_name(at::ScalarType type);

}  // namespace muster::compiler
