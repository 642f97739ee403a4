#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "muster/train/compiler/graph.h"

namespace muster::compiler {

/// A step, from its inputs to what is kept of it, by any libtorch calls, backward included.
using Step = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// One tensor of memory that is there before and after the step, as it was before it.
struct KeptMemory {
  /// A view of all of the memory, as bytes.
  at::Tensor memory{};
  at::Tensor before{};

  void restore() const;
};

struct Recording {
  Graph graph{};
  /// Outputs of the step, which has run.
  std::vector<at::Tensor> outputs{};
  /// All external memory that the step changed.
  std::vector<KeptMemory> changed{};
  /// Why the graph is not the whole step; empty where it is. Then the graph has no meaning.
  std::string obstacle{};
};

struct RecordOptions {
  /// Compares the inputs of every operation before and after it, and throws Internal where one
  /// changed that its schema does not name. For tests: it costs a copy of each.
  bool check_schemas = false;
};

/// Runs the step once, eagerly, and records the ATen operations that it makes below autograd, on
/// this thread and on those of its backward. Only one recording is made at a time in a process:
/// others wait for it.
///
/// Anything that a graph cannot express is an obstacle: a value that the host reads, memory that is
/// written past libtorch, tensors that are not strided, resized or given other memory. What it
/// cannot see, such as kernels that write past libtorch into memory that an operation has filled,
/// is found by running the graph beside the step: see CompiledStep.
Recording record(const Step& step, const std::vector<at::Tensor>& inputs,
                 const RecordOptions& options = {});

/// Called by a step while it is recorded: why its graph is not the whole of it, such as what the
/// host draws or keeps for later. Does nothing outside of recordings.
void note_obstacle(std::string why);

}  // namespace muster::compiler
