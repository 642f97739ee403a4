#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/optim/named_tensor.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/variables.h"

namespace muster {

/// The elements [first, last) of Variables::flat().
struct FlatRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Turns gradients into the next values of Variables, and owns the optimizers' slots. On the CPU an
/// update is one pass over flat memory, split over ATen's threads; how it is split does not change
/// a bit. Not for several threads at once.
class Updater {
 public:
  /// Every trainable variable belongs to the optimizer with the longest prefix of its name. Throws
  /// InvalidArgument, naming them, when variables belong to none, a prefix matches nothing, or one
  /// comes twice.
  Updater(const Variables& variables, OptimizersByPrefix optimizers);
  Updater(Updater&&) noexcept;
  Updater& operator=(Updater&&) noexcept;
  ~Updater();

  /// One step. `step` is the number of updates made before: learning rates are taken at it. Throws
  /// InvalidArgument when the gradients are not laid out as the variables, or an FTRL's rate is not
  /// positive; nothing is changed then.
  void apply(const Gradients& gradients, std::int64_t step);
  /// The same for these elements of the dense variables alone; of tables, as ever, for the rows
  /// that the gradients have.
  void apply(const Gradients& gradients, std::int64_t step, std::span<const FlatRange> only);

  /// What each optimizer uses at this step, for summaries and logs.
  struct Rate {
    std::string prefix;
    double learning_rate = 0;
  };
  std::vector<Rate> learning_rates(std::int64_t step) const;

  /// One line for each optimizer: its prefix, what it is, how many variables it has.
  std::vector<std::string> descriptions() const;

  /// Slots as `<variable>/<slot>`, shaped like their variable, and the scalars beta1_power and
  /// beta2_power of an Adam (beta1_power_1, ... of a second). restore() brings them back.
  std::vector<NamedTensor> tensors() const;

 private:
  struct Group;
  void check(const Gradients& gradients) const;

  std::vector<Group> groups_;
  std::int64_t flat_size_ = 0;
  std::size_t sparse_count_ = 0;
};

}  // namespace muster
