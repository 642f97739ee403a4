#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/nn/optim/named_tensor.h"
#include "muster/nn/optim/optimizer.h"
#include "muster/nn/optim/tensor_part.h"
#include "muster/nn/optim/variables.h"

namespace muster {

/// Inputs and outputs of an update by DeviceUpdate, on the variables' device: what changes from
/// step to step is in its memory, so that it can be captured once and replayed.
struct DeviceArguments {
  /// int64 [constants_size()], as write_constants() left them.
  at::Tensor constants{};
  /// Added to the gradient, times the value, of the elements that `decayed` names: see
  /// decay_mask().
  double decay = 0;
  at::Tensor decayed{};
  /// double [squares_size()]: their sum is that of the squares of decayed elements before the
  /// update. May be undefined.
  at::Tensor squares{};
  /// float [n], int64 [1], int64 [1]: when a loss is not finite, or bad_step is not 0, the update
  /// is skipped, and bad_step is the first such step plus 1.
  at::Tensor losses{};
  at::Tensor step{};
  at::Tensor bad_step{};
};

/// Turns gradients into the next values of Variables, and owns the optimizers' slots. On the CPU an
/// update is one pass over flat memory, split over ATen's threads; how it is split does not change
/// a bit. Not for several threads at once.
class Updater {
 public:
  /// Every trainable variable belongs to the optimizer with the longest prefix of its name. Throws
  /// InvalidArgument, naming them, when variables belong to none, a prefix matches nothing, or one
  /// comes twice. With `held`, there are slots for these elements of the dense variables alone, and
  /// apply() changes no others; variables are on the CPU then.
  Updater(const Variables& variables, const OptimizersByPrefix& optimizers,
          std::optional<FlatRange> held = std::nullopt);
  Updater(Updater&&) noexcept;
  Updater& operator=(Updater&&) noexcept;
  ~Updater();

  /// Where some elements are held: those are others from here on, whose slots have the values that
  /// a run begins with.
  void hold(const FlatRange& range);

  /// One step. `step` is the number of updates made before: learning rates are taken at it. Throws
  /// InvalidArgument when the gradients are not laid out as the variables, or an FTRL's rate is not
  /// positive; nothing is changed then.
  void apply(const Gradients& gradients, std::int64_t step);
  /// The same for these elements of the dense variables alone; of tables, as usual, for the rows
  /// that the gradients have.
  void apply(const Gradients& gradients, std::int64_t step, std::span<const FlatRange> only);

  /// For variables without tables, for DeviceUpdate: how many words the constants of a step have,
  /// and how many sums of squares there are.
  std::size_t constants_size() const;
  std::size_t squares_size() const;
  /// Writes the constants for apply(gradients, arguments) in its step. Counts as the update:
  /// Adam's powers advance. Throws InvalidArgument as apply() does.
  void write_constants(std::int64_t step, std::span<std::int64_t> words);
  /// Gives one update to the device and waits for nothing.
  void apply(const Gradients& gradients, const DeviceArguments& arguments);
  /// The part of the update that is weight decay alone, added to the gradients: for those who clip
  /// them before the rest.
  void add_decay(const Gradients& gradients, const DeviceArguments& arguments) const;

  /// Learning rate of an optimizer at a step, for summaries and logs.
  struct Rate {
    std::string prefix;
    double learning_rate = 0;
  };
  std::vector<Rate> learning_rates(std::int64_t step) const;

  /// One line for each optimizer: its prefix, what it is, how many variables it has.
  std::vector<std::string> descriptions() const;

  /// Slots as `<variable>/<slot>`, shaped like their variable, and the scalars beta1_power and
  /// beta2_power of an Adam (beta1_power_1, ... of a second); with OptimizerFor::scopes, where it
  /// has some. restore() brings them back. Where some elements are held, slots of dense variables
  /// are in parts().
  std::vector<NamedTensor> tensors() const;
  /// The held part of the slots of every dense variable; none where all elements are held.
  std::vector<TensorPart> parts() const;

 private:
  struct Group;
  void check(const Gradients& gradients) const;

  std::vector<Group> groups_;
  std::optional<FlatRange> held_;
  at::Tensor flat_;
  std::int64_t flat_size_ = 0;
  std::size_t sparse_count_ = 0;
};

}  // namespace muster
