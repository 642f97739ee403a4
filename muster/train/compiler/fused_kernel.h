#pragma once

#include <memory>
#include <string>

#include "muster/train/compiler/kernel.h"
#include "muster/train/compiler/program.h"

namespace muster::compiler {

/// A program as a kernel of a graph. On a GPU it is generated, compiled once in a process, and
/// launched; on the CPU it is evaluated.
class FusedKernel : public Kernel {
 public:
  /// `operations` are what it stands for: "relu, add.Tensor".
  FusedKernel(Program program, std::string operations);
  ~FusedKernel() override;

  const Program& program() const { return program_; }
  const std::string& operations() const { return operations_; }
  std::string name() const override;
  void run(std::span<const at::Tensor> inputs, std::span<const at::Tensor> results) const override;
  std::optional<KernelSource> source() const override;

 private:
  struct OnDevice;
  Program program_;
  std::string operations_;
  /// Compiled at the first run.
  mutable std::shared_ptr<OnDevice> on_device_;
};

/// That of a node, or null.
const FusedKernel* fused_kernel(const Node& node);

}  // namespace muster::compiler
