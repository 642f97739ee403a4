#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/data/checkpoint/checkpoint_parts.h"
#include "muster/data/checkpoint/snapshot_writer.h"
#include "muster/distribution/collective.h"
#include "muster/distribution/collective/device_all_reduce_internal.h"
#include "muster/distribution/collective/shard_exchange_internal.h"
#include "muster/distribution/membership/cluster_membership_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"
#include "muster/nn/optim/norm_shards.h"

namespace muster::internal {

/// Sums the gradients of all tasks, each of which makes the same update: on the CPU by recursive
/// doubling, large ones in slices, or on devices. In a sharded run each makes its part of the
/// update, of its part of the sum if that is divided, gives the others the values, and writes its
/// part of checkpoints.
class CollectiveReduction final : public GradientReduction {
 public:
  /// The membership outlives it.
  CollectiveReduction(const CollectiveOptions& options, ClusterMembership& membership)
      : options_(options), membership_(membership) {}
  ~CollectiveReduction() override;
  CollectiveReduction(const CollectiveReduction&) = delete;
  CollectiveReduction& operator=(const CollectiveReduction&) = delete;

  /// Called in every generation, when this task has the state of the run.
  void begin_generation(Group& group);
  /// Called before the next one, and at the end: what was asked of others is void.
  void end_generation();

  std::optional<StepResult> apply(std::int64_t step, PartialSums own) override;
  std::string why_not_on_device(c10::Device device) const override;
  std::optional<StepResult> step_on_device(std::int64_t step,
                                           std::span<const std::optional<Batch>> batches,
                                           const GiveStep& give) override;
  std::shared_ptr<CheckpointParts> begin_parts(std::int64_t step) override;
  bool is_sharded() const override { return membership_.config().sharding != Sharding::kOff; }
  void close() override;
  bool is_closed() const override { return is_closed_; }

 private:
  Membership& tasks() { return membership_.tasks(); }
  Group& group() const { return membership_.group(); }
  Participant& participant() const { return membership_.participant(); }
  bool divides_gradients() const { return membership_.config().sharding == Sharding::kGradients; }
  c10::Device primary() const { return participant().run_variables().flat().device(); }

  std::optional<PartialSums> sum(std::int64_t step, PartialSums own, StepNotes& notes);
  at::Tensor sum_in_slices(const StepNotes& notes);
  FlatRange summed_here(std::int64_t flat_size) const;
  std::optional<StepResult> update(std::int64_t step, PartialSums total);
  std::optional<SquareSums> join_norms(std::int64_t step, const Gradients& held);
  bool gather(std::int64_t step);
  void begin_shard(Group& group);
  void prove_folder();
  void check_folder(const FolderProof& proof) const;
  bool follow_order(std::int64_t step);
  void await_first_parts();
  void compare_batches(const std::vector<TaskBatches>& all);
  void link_devices(Group& group);
  std::string device_group_id(Group& group);
  void link_gpus(Group& group, std::vector<FlatRange>& pieces);
  std::optional<ReceivedStep> tell_batches(std::int64_t step,
                                           std::span<const std::optional<Batch>> batches,
                                           const InputPositions& positions);
  bool await_device(std::int64_t step);
  void abort_device_work(std::int64_t step);

  const CollectiveOptions options_;
  ClusterMembership& membership_;
  /// Messages of steps in this generation.
  std::int64_t sequence_ = 0;
  /// Whether the chief has looked at the sizes of the tasks' batches.
  bool has_compared_batches_ = false;
  /// The sum of dense gradients, where it is made in slices: of all, or of this task's range.
  at::Tensor whole_;

  // In a sharded run: who updates what in this generation, what the chief has the others write, and
  // how they see that it is written where the chief looks for it.
  std::optional<ShardLayout> shards_;
  /// Where gradients are divided: how norms come together.
  std::optional<NormShards> norms_;
  PartOrder order_;
  std::weak_ptr<CheckpointParts> parts_;
  bool is_closed_ = false;
  /// This task did not go through a step to its end: others may be in the middle of it.
  bool is_abandoned_ = false;
  /// How often parts of the first checkpoint were not written.
  int first_tries_ = 0;
  FolderProof proof_;
  /// Where there was a part to write.
  std::optional<SnapshotWriter> part_writer_;

  // Where gradients are summed on devices: those of this generation.
  std::unique_ptr<DeviceLink> link_;
  std::unique_ptr<DeviceAllReduce> device_sums_;
  std::optional<DeviceMark> mark_;
};

}  // namespace muster::internal
