#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "muster/data/features/batch.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/model/estimator_spec.h"
#include "muster/nn/model/model.h"
#include "muster/nn/optim/variables.h"
#include "muster/train/engine/batch_norms.h"
#include "muster/train/engine/compiled_tower.h"
#include "muster/train/engine/gradient_buckets.h"
#include "muster/train/engine/packed_tensors.h"
#include "muster/train/engine/tower_options.h"

namespace muster {

class Head;

/// For a step that is captured: what changes from replay to replay.
struct CapturedInput {
  /// For each slot of the devices: those of the run's replicas, in the memory of its device. See
  /// RandomScope. Empty where nothing is captured.
  std::span<const std::uint64_t* const> keys{};
  /// Whether the step is being captured: its work is not done now, and libtorch's generators are
  /// seeded already.
  bool capturing = false;
  /// Such a step is to be captured: the calling thread gives all devices their work, as it will
  /// then, since libraries have handles by thread.
  bool in_turn = false;
};

/// The parameters of a step that all replicas of a process share.
struct ReplicaStep {
  /// The global step before it.
  std::int64_t number = 0;
  double loss_scale = 1.0;
  CapturedInput captured{};
  /// Whether a tower's gradients are copied, since it needs its memory for the next replica.
  bool copies_gradients = false;
};

/// The results of one replica.
struct ReplicaResult {
  std::optional<Gradients> gradients{};
  /// Detached, not scaled.
  at::Tensor loss{};
  std::int64_t examples = 0;
  EstimatorSpec spec{};
  /// See PartialSums.
  std::span<const DeviceMark> marks{};
};

/// The device slot of a tower: see DeviceSlots.
struct TowerSlot {
  c10::Device device{c10::kCPU};
  std::size_t index = 0;
  /// The device that has the variables of the process.
  c10::Device primary{c10::kCPU};
  /// Whether the tower reads a copy of them.
  bool is_away = false;
  /// Whether it tells for all towers of the process what they do alike.
  bool says = false;
};

/// A module that shares its variables with others, and has buffers and gradients of its own: the
/// forward and backward of one replica at a time, on one device.
class Tower {
 public:
  /// Moves the model to its device and ties it to the variables. The head, which may be null, and
  /// the options outlive it.
  Tower(std::shared_ptr<Model> model, const Variables& variables, const TowerSlot& slot,
        const Head* head, const TowerOptions& options);
  Tower(const Tower&) = delete;
  Tower& operator=(const Tower&) = delete;

  /// Forward and backward of a replica, whose gradients are in gradients() then; those of the
  /// result are left to the caller. On a GPU the work is only given.
  ReplicaResult run(std::int64_t replica, const Batch& batch, const ReplicaStep& step);
  /// Whether a step of such a batch on its device only gives work to it, and may be captured.
  bool is_settled(const Batch& batch) const;

  const std::shared_ptr<Model>& model() const { return model_; }
  const TowerSlot& slot() const { return slot_; }
  /// Gradients of the last run; the next one writes them again.
  const Gradients& gradients() const { return attached_.gradients(); }
  /// The same, with their memory, where TowerOptions::releases_gradients. Once for each run.
  Gradients take_gradients() { return attached_.release_gradients(); }
  const std::vector<at::Tensor>& buffers() const { return buffers_; }
  /// Where it is away: memory on its device for its buffers side by side, on their way.
  const std::optional<PackedTensors>& packed() const { return packed_; }

 private:
  /// Spec that the model made of a batch, and whether dense gradients were moved to where they
  /// belong.
  struct Made {
    EstimatorSpec spec{};
    bool were_moved = false;
  };
  Made forward_and_backward(std::int64_t replica, const Batch& batch, const ReplicaStep& step);
  Made compiled(std::int64_t replica, const Batch& batch, const ReplicaStep& step);
  EstimatorSpec forward(const Batch& batch) const;
  std::vector<at::Tensor> outside_memory() const;
  std::unique_lock<std::mutex> seeded(std::int64_t replica, const ReplicaStep& step) const;
  at::Tensor key_of(std::int64_t replica, const ReplicaStep& step) const;

  const TowerOptions& options_;
  const Head* head_;
  const TowerSlot slot_;
  /// Elements of the dense variables.
  const std::int64_t flat_size_;
  const std::shared_ptr<Model> model_;
  AttachedModule attached_;
  const std::vector<at::Tensor> buffers_;
  const BatchNorms norms_;
  /// Brings batches to a GPU.
  std::optional<Feed> feed_;
  /// Where sums over other processes may begin before its backward ends.
  std::unique_ptr<GradientBuckets> buckets_;
  std::optional<PackedTensors> packed_;
  /// Where steps are compiled and this tower's can be.
  std::optional<CompiledTower> compiled_;
};

}  // namespace muster
