#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/train/compiler/kernel.h"

namespace muster::compiler {

/// The gradient of an embedding's table: rows of zeros, to which the gradients of their words are
/// added, in the order of the words.
struct EmbeddingGradient {
  /// Element types of the gradient that comes back, of the words and of the table's gradient.
  at::ScalarType from = at::kFloat;
  at::ScalarType words = at::kLong;
  at::ScalarType to = at::kFloat;
  /// Words are [outer, inner]; so are rows of the gradient, with these strides.
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  std::int64_t outer_stride = 0;
  std::int64_t inner_stride = 0;
  std::int64_t columns = 1;
  /// A word without a gradient; -1 for none.
  std::int64_t padding = -1;
};

/// Every word is compared with all others: for few thousand.
inline constexpr std::int64_t kMostWords = 1 << 14;

/// Its inputs are the gradient and the words, and the table's gradient where that is there already;
/// where it is not, it is the result.
class EmbeddingKernel : public Kernel {
 public:
  explicit EmbeddingKernel(EmbeddingGradient gradient);
  ~EmbeddingKernel() override;
  std::string name() const override;
  void run(std::span<const at::Tensor> inputs, std::span<const at::Tensor> results) const override;
  std::optional<KernelSource> source() const override;

 private:
  struct OnDevice;
  EmbeddingGradient gradient_;
  mutable std::shared_ptr<OnDevice> on_device_;
};

}  // namespace muster::compiler
