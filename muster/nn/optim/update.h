#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "muster/nn/optim/clipping.h"
#include "muster/nn/optim/moving_average.h"
#include "muster/nn/optim/updater.h"
#include "muster/nn/optim/variables.h"
#include "muster/nn/optim/weight_decay.h"

namespace muster {

/// How the mean gradients of a step become the variables' next values: by these stages, in this
/// order, wherever the variables are. HostUpdate and DeviceUpdate make them with the same bits.
///
///   losses    one that is not finite voids the update: nothing below happens
///   unscale   the loss scale that backward was done with is taken off
///   decay     the gradient of the weight-decay term is added
///   clamp     elements are clipped by value
///   norms     sums of squares by block, where the stages below need them
///   check     a gradient that is not finite voids the update, where gradients are checked
///   clip      by the norm of each variable, or of all together
///   apply     the optimizers, with the moving average around them
struct UpdateRules {
  WeightDecay weight_decay{};
  ClipOptions clip{};
  /// Whether gradients are checked; where not, only losses void an update.
  bool checks_gradients = false;

  bool decays() const { return weight_decay.factor > 0; }
  bool clips_by_norm() const { return clip.norm || clip.global_norm; }
  /// Whether a stage asks for norms where others hold some of the gradients.
  bool needs_norms_of_all() const { return clips_by_norm() || checks_gradients; }
};

/// The first stage. Undefined tensors are those of replicas without a batch. Waits for the device.
bool all_finite(std::span<const at::Tensor> losses);

/// Share of the variables that one of several holders has.
struct VariableShard {
  std::span<const VariablePart> parts{};
  /// The same of the dense ones, in rising order.
  std::span<const FlatRange> flat{};
};

/// An update that the host makes stage by stage: of all variables, on any device, or of a shard of
/// variables in host memory, where the norms of all shards are put together between the stages:
///
///   if (!all_finite(losses)) return;
///   update.prepare(gradients);
///   SquareSums norms = update.norms(gradients);   // of shards: added up over all holders
///   if (update.is_finite(gradients, norms)) update.apply(gradients, step, norms);
///
/// Gradients that a shard does not hold are 0 or not there. Where all values are here and a range
/// of the gradients (Gradients::first), all stages but norms() are for that range, and NormShards
/// puts norms together. Belongs to one thread.
class HostUpdate {
 public:
  /// All outlive it; `average` may be null.
  HostUpdate(const Variables& variables, Updater& updater, UpdateRules rules,
             MovingAverage* average = nullptr);
  /// A shard, whose spans outlive it too.
  HostUpdate(const Variables& variables, Updater& updater, UpdateRules rules,
             const VariableShard& shard);

  const UpdateRules& rules() const { return rules_; }

  /// The stages unscale, decay and clamp, in place. Returns the value of the weight-decay term, for
  /// the reported loss; 0 for a VariableShard, which does not know it.
  double prepare(Gradients& gradients, double loss_scale = 1.0) const;
  /// Sums of squares of the gradients held; zeros where no stage needs them.
  SquareSums norms(const Gradients& gradients) const;
  /// The check, with the norms of all holders. True where gradients are not checked.
  bool is_finite(const Gradients& gradients, const SquareSums& norms) const;
  /// By norm, in place; for those who hand the gradients to others to apply.
  void clip(Gradients& gradients, const SquareSums& norms) const;
  /// The stages clip and apply. `step` is the number of updates made before.
  void apply(Gradients& gradients, std::int64_t step, const SquareSums& norms);

 private:
  const Variables& variables_;
  Updater& updater_;
  UpdateRules rules_;
  MovingAverage* average_ = nullptr;
  std::optional<VariableShard> shard_;
};

/// An update that is given to the device that has the variables, without a wait for it: what
/// changes from step to step is in the device's memory, so it can be captured once and replayed.
/// There are no tables, no loss scale and no check of gradients; a loss that is not finite voids
/// this update and all that follow. Norms are summed in another order than HostUpdate's. Host
/// memory counts as a device. Belongs to one thread.
class DeviceUpdate {
 public:
  /// Whether it can make updates by these rules.
  static bool can_make(const UpdateRules& rules, const Variables& variables);

  /// All outlive it; `average` may be null. Before each update, `step` int64 [1] has the number of
  /// updates made before, and `constants` what Updater::write_constants() writes.
  DeviceUpdate(const Variables& variables, Updater& updater, UpdateRules rules,
               MovingAverage* average, at::Tensor step, at::Tensor constants);

  /// All stages. `number` is for the moving average, whose decay a captured update keeps.
  void apply(Gradients& gradients, std::span<const at::Tensor> losses, std::int64_t number);

  /// The first step, counted from 1, whose loss was not finite. Waits for the device.
  std::optional<std::int64_t> first_bad_step() const;
  /// State kept on the device from one update to the next, beside the variables and slots.
  const at::Tensor& state() const { return arguments_.bad_step; }
  /// The weight-decay term of the last step's loss. Waits for the device.
  double decay_loss() const;

 private:
  const Variables& variables_;
  Updater& updater_;
  UpdateRules rules_;
  MovingAverage* average_;
  DeviceArguments arguments_;
  /// Decay is a stage of its own before clipping; else it is part of the optimizers' pass.
  bool clips_;
};

}  // namespace muster
