#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

#include "muster/saved_model/executor/budget_internal.h"

/// Long work in pieces, between which the time is looked at: a graph of a few bytes can ask for one
/// operation that takes seconds.
namespace muster::executor {

/// For loops: looks at the time each time that some work has been done.
class Pace {
 public:
  explicit Pace(const Budget& budget) : budget_(budget) {}

  /// About as many bytes are going to be read or written.
  void add(std::size_t bytes) {
    done_ += bytes;
    if (done_ < kPiece) return;
    done_ = 0;
    budget_.check_time();
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;

  const Budget& budget_;
  std::size_t done_ = 0;
};

/// Copies a tensor into one of the same sizes.
void paced_copy(const at::Tensor& from, const at::Tensor& to, const Budget& budget);

/// Result of `compute` on the operands element by element, axes of size 1 repeated. Large ones are
/// computed piece by piece, with the same result.
using ElementWise = std::function<at::Tensor(std::span<const at::Tensor> operands)>;
at::Tensor paced_map(std::span<const at::Tensor> operands, const Budget& budget,
                     const ElementWise& compute);

/// The product of matrices, or of batches of them.
at::Tensor paced_product(const at::Tensor& left, const at::Tensor& right, const Budget& budget);

/// Multiplications of one piece of a product or convolution: what a processor does in a second or
/// less. Pieces depend on sizes alone.
inline constexpr std::int64_t kMostProducts = std::int64_t{1} << 34;

}  // namespace muster::executor
