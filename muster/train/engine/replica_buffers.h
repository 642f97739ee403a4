#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/nn/model/model.h"
#include "muster/train/engine/device_slots.h"
#include "muster/train/engine/packed_tensors.h"
#include "muster/train/engine/tower.h"

namespace muster {

/// The buffers of a run, as the averages of batch norm: those of replica 0, as its last forward
/// left them, and those that the last step left, from which every other replica starts. Belongs to
/// the loop's thread, except for bring_to() and take_from() of different towers.
class ReplicaBuffers {
 public:
  /// Those of a model that is on the primary. Where some towers are away they are laid side by
  /// side, so that one copy brings them there.
  ReplicaBuffers(const Model& model, const DeviceSlots& slots, bool on_gpus);

  /// Those of replica 0, on the primary: of its tower, or copies of its tower's.
  const std::vector<at::Tensor>& current() const { return current_; }
  /// After the update: what replica 0's forward changed counts from here on.
  void keep();
  /// Instead of the update: they are as they were before the step.
  void discard();

  /// Before a replica's forward: the tower's own are those that it starts from. A GPU takes them
  /// while no thread waits.
  void bring_to(const Tower& tower, std::int64_t replica) const;
  /// After replica 0's backward, where its tower is away.
  void take_from(const Tower& tower);

 private:
  static void bring(const PackedTensors& from, const Tower& tower);

  /// Whether the host waits for what a GPU gives, or only at the end of the step.
  const bool is_waited_for_;
  std::vector<at::Tensor> current_;
  std::vector<at::Tensor> kept_;
  /// Where some towers are away: the memory of both.
  std::optional<PackedTensors> packed_current_;
  std::optional<PackedTensors> packed_kept_;
};

}  // namespace muster
