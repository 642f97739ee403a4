#pragma once

#include <cstdint>
#include <string>

#include "muster/train/compiler/program.h"

namespace muster::compiler {

/// Threads of a block of every generated kernel.
inline constexpr int kKernelThreads = 256;

/// A program as a function `NAME(block, blocks, pointers...)` for the threads of one block.
struct KernelPart {
  std::string text;
  /// Blocks on a GPU, and on the host, where a block has one thread.
  std::int64_t blocks_x = 1;
  std::int64_t blocks_y = 1;
  std::int64_t host_blocks_x = 1;
};

KernelPart part_of(const Program& program, const std::string& name);

/// Types of a program's parameters: "const bf16*", the inputs, then the outputs.
std::vector<std::string> parameter_types(const Program& program);

}  // namespace muster::compiler
