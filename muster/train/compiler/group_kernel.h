#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/train/compiler/kernel.h"
#include "muster/train/compiler/kernel_source.h"
#include "muster/train/compiler/program.h"

namespace muster::compiler {

/// Programs that do not depend on one another, as one launch. Its inputs are those of all programs,
/// then come the results of all.
class GroupKernel : public Kernel {
 public:
  explicit GroupKernel(std::vector<Program> programs);
  ~GroupKernel() override;

  std::string name() const override;
  void run(std::span<const at::Tensor> inputs, std::span<const at::Tensor> results) const override;
  std::optional<KernelSource> source() const override;
  const std::vector<Program>& programs() const { return programs_; }

 private:
  struct OnDevice;
  std::vector<Program> programs_;
  /// Compiled at the first run.
  mutable std::shared_ptr<OnDevice> on_device_;
};

}  // namespace muster::compiler
