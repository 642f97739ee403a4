#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/train/compiler/kernel.h"

namespace muster::compiler {

/// Adds numbers to int64 counters, each in memory of its own, in one launch.
class CounterKernel : public Kernel {
 public:
  /// By counter, the number that is added.
  explicit CounterKernel(std::vector<std::int64_t> added);
  ~CounterKernel() override;

  std::string name() const override;
  void run(std::span<const at::Tensor> inputs, std::span<const at::Tensor> results) const override;
  std::optional<KernelSource> source() const override;

 private:
  struct OnDevice;
  std::vector<std::int64_t> added_;
  mutable std::shared_ptr<OnDevice> on_device_;
};

}  // namespace muster::compiler
