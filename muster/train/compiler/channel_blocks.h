#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/train/compiler/kernel.h"

namespace muster::compiler {

/// A picture or a weight of few channels as one of more channels: squares of `stride` x `stride`
/// pixels become the channels of one, each pixel in `slots` of them, and what is outside is zero. A
/// convolution of that stride is then one of stride 1 over as many fewer pixels, without padding.
struct ChannelBlocks {
  at::ScalarType from = at::kFloat;
  at::ScalarType to = at::kBFloat16;
  /// Those of the tensor of few channels: NCHW.
  std::vector<std::int64_t> sizes{};
  std::vector<std::int64_t> strides{};
  std::int64_t stride = 1;
  std::int64_t slots = 8;
  /// Those of the tensor of more channels, which lies with channels innermost.
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  /// The pixel, at most 0, where the first square begins.
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;

  std::int64_t channels() const { return stride * stride * slots; }
};

/// From few channels to blocks, or back.
class ChannelBlocksKernel : public Kernel {
 public:
  ChannelBlocksKernel(ChannelBlocks blocks, bool back);
  ~ChannelBlocksKernel() override;
  std::string name() const override;
  void run(std::span<const at::Tensor> inputs, std::span<const at::Tensor> results) const override;
  std::optional<KernelSource> source() const override;

 private:
  struct OnDevice;
  ChannelBlocks blocks_;
  bool back_;
  mutable std::shared_ptr<OnDevice> on_device_;
};

}  // namespace muster::compiler
