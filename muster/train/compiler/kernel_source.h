#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

#include "muster/train/compiler/program.h"

namespace muster::compiler {

/// CUDA C++ of one kernel, and how it is launched.
struct KernelSource {
  std::string text;
  std::int64_t grid_x = 1;
  std::int64_t grid_y = 1;
  std::int64_t threads = 1;
};

/// The kernel `muster_kernel`, whose parameters are pointers: the inputs, then the outputs. It
/// includes nothing. Compiled by a C++ compiler with MUSTER_ON_HOST defined, the same text has a
/// function `muster_run(void** pointers)` that runs it with one thread a block, for tests.
KernelSource source_of(const Program& program);

/// Several programs that do not depend on one another as one launch, each in blocks of its own:
/// parameters are the inputs of all, then the outputs of all. None is of kColumnSums.
KernelSource source_of(std::span<const Program> programs);

/// The columns that a row of kRows may have: its values stay in registers.
inline constexpr std::int64_t kMostRowColumns = 8192;

/// Blocks of a launch over elements: enough for a large GPU. Threads take more than one piece where
/// there are more.
inline constexpr std::int64_t kMostBlocks = std::int64_t{132} * 32;

/// Text that generated kernels begin with: element types `f32`, `bf16`, `f16`, `flag`, get() and
/// put(), and the words for blocks and threads on a device and on the host. `threads` are those of
/// a block.
std::string kernel_prelude(std::int64_t threads);
/// The name of a type's elements there.
const char* element_name(at::ScalarType type);

}  // namespace muster::compiler
