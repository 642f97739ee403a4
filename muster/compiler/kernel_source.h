#pragma once

#include <cstdint>
#include <string>

#include "muster/compiler/program.h"

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

}  // namespace muster::compiler
