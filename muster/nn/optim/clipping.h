#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/nn/optim/variables.h"

namespace muster {

/// At most one is set. Applied to the mean gradients, after weight decay is added.
struct ClipOptions {
  std::optional<double> value{};
  /// Limit of the norm of every variable by itself.
  std::optional<double> norm{};
  /// Limit of the norm of all together.
  std::optional<double> global_norm{};
};

/// Clipping of gradients that are too large. Limits must be positive.
///
/// Norms are summed in double over fixed blocks of each variable, in their order, so where
/// variables and blocks live does not change a bit. All change the gradients in place.

/// Every element into [-limit, limit].
void clip_by_value(Gradients& gradients, double limit);

/// Every variable's gradient is scaled down to this norm if it is longer; one that is not finite is
/// left alone, so that a check for NaN finds it.
void clip_by_norm(const Variables& variables, Gradients& gradients, double limit);

/// All gradients are scaled by one factor if their norm together is longer. Returns that norm as it
/// was before; when it is not finite, gradients are left alone.
double clip_by_global_norm(const Variables& variables, Gradients& gradients, double limit);

/// The same for dense gradients on a GPU, without waiting for it. The norms are summed in another
/// order.
void clip_by_norm_on_device(const Variables& variables, Gradients& gradients, double limit);
void clip_by_global_norm_on_device(Gradients& gradients, double limit);

/// The norm of all gradients together.
double global_norm(const Variables& variables, const Gradients& gradients);

/// A block of a dense variable: elements. Variables are divided between blocks only.
inline constexpr std::int64_t kNormBlock = 1 << 15;
/// A block of a table: rows, of which a gradient has those that were touched.
inline constexpr std::int64_t kNormRowBlock = 1 << 12;

/// The sums of squares of all blocks, variable after variable; those of blocks that another
/// holder has are 0, so that sums are put together by adding them.
class SquareSums {
 public:
  explicit SquareSums(const Variables& variables);

  /// Adds this part's elements of a dense variable's gradient, or the touched rows among a table's.
  /// A part begins with a block, and ends with one or with the variable.
  void add(const Gradients& gradients, const VariablePart& part);

  /// The sum of a block, by its number in the variable.
  void set(std::size_t variable, std::int64_t block, double sum);

  /// Norm of one variable's gradient.
  double norm(std::size_t variable) const;
  double global_norm() const;

  std::vector<double>& blocks() { return blocks_; }

 private:
  const Variables& variables_;
  /// By variable: its first block; one more for the end.
  std::vector<std::size_t> first_block_;
  std::vector<double> blocks_;
};

/// As the two above, with sums that were put together before.
void clip_by_norm(const Variables& variables, Gradients& gradients, double limit,
                  const SquareSums& sums);
void clip_by_global_norm(Gradients& gradients, double limit, const SquareSums& sums);

/// Factor that brings a gradient's norm down to the limit; 1 where it is at most that or is not
/// finite.
double clip_factor(double norm, double limit);

}  // namespace muster
