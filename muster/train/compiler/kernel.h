#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string>

#include "muster/train/compiler/kernel_source.h"

namespace muster::compiler {

/// A kernel of our own, instead of operations of a graph. Immutable, and shared by graphs.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// For plans and logs.
  virtual std::string name() const = 0;
  /// Gives its work to the device of the results, which are allocated and written whole. `inputs`
  /// are a node's tensor arguments, of which it may change those that Node::writes names.
  virtual void run(std::span<const at::Tensor> inputs,
                   std::span<const at::Tensor> results) const = 0;
  /// Text that is compiled for a GPU before the first run, if any is.
  virtual std::optional<KernelSource> source() const { return std::nullopt; }
};

}  // namespace muster::compiler
