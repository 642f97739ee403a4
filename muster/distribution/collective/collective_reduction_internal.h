#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/distribution/collective.h"
#include "muster/distribution/collective/device_all_reduce_internal.h"
#include "muster/distribution/membership/cluster_membership_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"

namespace muster::internal {

/// Sums the gradients of all tasks, each of which makes the same update: on the CPU by recursive
/// doubling, large ones in slices, or on devices.
class CollectiveReduction final : public GradientReduction {
 public:
  /// The membership outlives it.
  CollectiveReduction(const CollectiveOptions& options, ClusterMembership& membership)
      : options_(options), membership_(membership) {}

  /// Called in every generation, when this task has the state of the run.
  void begin_generation(Group& group);

  std::optional<StepResult> apply(std::int64_t step, PartialSums own) override;
  std::string why_not_on_device(c10::Device device) const override;
  std::optional<StepResult> step_on_device(std::int64_t step,
                                           std::span<const std::optional<Batch>> batches,
                                           const GiveStep& give) override;

 private:
  Membership& tasks() { return membership_.tasks(); }
  Group& group() const { return membership_.group(); }
  Participant& participant() const { return membership_.participant(); }
  c10::Device primary() const { return participant().run_variables().flat().device(); }

  std::optional<PartialSums> sum(std::int64_t step, PartialSums own, StepNotes& notes);
  at::Tensor sum_in_slices(const StepNotes& notes);
  void compare_batches(const std::vector<TaskBatches>& all);
  void link_devices(Group& group);
  std::string device_group_id(Group& group);
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
  /// The sum of all dense gradients, where it is made in slices.
  at::Tensor whole_;

  // Where gradients are summed on devices: those of this generation.
  std::unique_ptr<DeviceLink> link_;
  std::unique_ptr<DeviceAllReduce> device_sums_;
  std::optional<DeviceMark> mark_;
};

}  // namespace muster::internal
