#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/data/features/batch.h"
#include "muster/train/engine/participant.h"

namespace muster {

class CheckpointParts;

/// Sums over the processes of a run that their devices make, while no host waits.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;

  /// Makes of what the replicas of this process gave what all of the run gave: one sum, all losses,
  /// and in `buffers` those of replica 0. It is given to this thread's stream, and can be captured
  /// where every replica has a batch.
  virtual void add_up(PartialSums& own, const std::vector<at::Tensor>& buffers) = 0;
};

/// How the gradients of all processes become one update, and where the values that it changes are.
/// Called by the trainer's thread alone, between RunMembership::synchronize() and the next
/// PeersChanged.
class GradientReduction {
 public:
  virtual ~GradientReduction() = default;

  /// Makes one update of what all processes have, wherever the variables are; afterwards their next
  /// values are here. Nothing when the chief has ended the run. Throws PeersChanged, with all
  /// values as they were.
  virtual std::optional<StepResult> apply(std::int64_t step, PartialSums own) = 0;
  /// Why variables cannot be on that device, and their gradients summed there; empty where they
  /// can: then steps are made by step_on_device(), and not by apply().
  virtual std::string why_not_on_device(c10::Device /*device*/) const {
    return "gradients are summed on the CPU";
  }
  /// Gives a step to the device, where the sums of all processes are made.
  using GiveStep = std::function<void(DeviceSums& sums, bool has_all_replicas)>;
  /// Tells the others which replicas have a batch here, has the step given to the device if one of
  /// the run's has, and returns when the device has made it. There is an element for each replica
  /// of the run in `batches`. Nothing when the chief has ended the run. Throws PeersChanged; what
  /// was given is then over, but may have been done in part.
  virtual std::optional<StepResult> step_on_device(std::int64_t step,
                                                   std::span<const std::optional<Batch>> batches,
                                                   const GiveStep& give);
  /// Has the slots written that belong to the variables' values, where they are not here anyway;
  /// the chief calls it before it saves. Throws PeersChanged.
  virtual void fetch_slots() {}
  /// In the place of fetch_slots(): those who hold variables begin to write their parts of a
  /// checkpoint of this step, and the slots of the others are written. Null where the chief is to
  /// write everything. Throws PeersChanged.
  virtual std::shared_ptr<CheckpointParts> begin_parts(std::int64_t step);
  /// Whether no process has all slots: then every checkpoint is written in parts, and a process
  /// that is lost takes all back to the last one.
  virtual bool is_sharded() const { return false; }
  /// Where they are sharded, after the last step: the others hear of the parts that were begun
  /// last, which no step follows that they would hear of them with. Called by all that leave when
  /// the chief does. Throws PeersChanged.
  virtual void close() {}
  /// Whether this process has heard that no step follows.
  virtual bool is_closed() const { return false; }
};

}  // namespace muster
