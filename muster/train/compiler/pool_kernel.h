#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/train/compiler/kernel.h"
#include "muster/train/compiler/kernel_source.h"

namespace muster::compiler {

/// Max pooling of pictures with channels innermost. It keeps the place of each maximum in its
/// window as a byte, and the way back gathers by those places: no atomics, sums in a fixed order.
struct Pooling {
  at::ScalarType type = at::kFloat;
  std::int64_t batch = 1;
  std::int64_t channels = 1;
  /// Those of the picture, and of what is made of it.
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  /// Those of a window.
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

/// Forward: from the picture to maxima and places. Backward: from the maxima's gradient and the
/// places to the picture's gradient.
class PoolKernel : public Kernel {
 public:
  PoolKernel(Pooling pooling, bool backward);
  ~PoolKernel() override;
  std::string name() const override;
  void run(std::span<const at::Tensor> inputs, std::span<const at::Tensor> results) const override;

  std::optional<KernelSource> source() const override;

 private:
  struct OnDevice;
  Pooling pooling_;
  bool backward_;
  mutable std::shared_ptr<OnDevice> on_device_;
};

}  // namespace muster::compiler
