#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/nn/device/gpu.h"
#include "muster/nn/optim/moving_average.h"
#include "muster/nn/optim/named_tensor.h"
#include "muster/nn/optim/update.h"
#include "muster/nn/optim/updater.h"
#include "muster/train/engine/loss_scale.h"
#include "muster/train/engine/run_setup.h"
#include "muster/train/engine/tensor_codec.h"
#include "muster/train/engine/towers.h"

namespace muster {

/// All values that a run of training by gradients changes, and what changes them: towers that share
/// the variables, optimizers with their slots, moving averages and the loss scale. Belongs to the
/// loop's thread, whose work for a GPU goes to the run's stream while this lives.
class TrainingState {
 public:
  /// With the first values of the model, or those of its warm start where `is_fresh`.
  TrainingState(const EstimatorOptions& options, const RunConfig& config, const RunPlan& plan,
                bool is_fresh);
  TrainingState(const TrainingState&) = delete;
  TrainingState& operator=(const TrainingState&) = delete;

  Towers& towers() { return towers_; }
  const Towers& towers() const { return towers_; }
  Updater& updater() { return updater_; }
  const Updater& updater() const { return updater_; }
  /// Null where none are kept.
  MovingAverage* average() { return average_ ? &*average_ : nullptr; }
  LossScale& scale() { return scale_; }
  const LossScale& scale() const { return scale_; }
  HostUpdate& host_update() { return host_update_; }
  const CheckpointLayouts& layouts() const { return layouts_; }

  /// Variables, slots and moving averages, except for those that are in held().
  std::vector<NamedTensor> variables() const;

  // As HeldParts has them, in a sharded run.
  bool is_sharded() const { return held_.has_value(); }
  void hold(const FlatRange& range);
  std::vector<TensorPart> held() const;
  EncodedTensors encoded_held() const;

  /// All tensors of a checkpoint. Buffers are copied, since the next forward changes them while the
  /// rest is still being copied in the background.
  std::vector<NamedTensor> checkpoint_tensors(std::int64_t step) const;
  /// By the optimizers' prefixes, for the update of this number.
  std::map<std::string, double> learning_rates(std::int64_t step) const;
  /// Returns the step of the checkpoint.
  std::int64_t restore(const ResumePoint& from);

 private:
  void warm_start_variables(const EstimatorOptions& options);
  void log_memory() const;

  /// First, so that it ends last. Null where the host makes all steps.
  const std::unique_ptr<StreamScope> stream_;
  Towers towers_;
  const CheckpointLayouts layouts_;
  const bool divides_gradients_;
  /// Where it is a part: the elements of the dense variables whose slots and averages are here.
  std::optional<FlatRange> held_;
  Updater updater_;
  std::optional<MovingAverage> average_;
  LossScale scale_;
  HostUpdate host_update_;
};

}  // namespace muster
