#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/nn/device/gpu.h"
#include "muster/train/engine/partial_sums.h"
#include "muster/train/engine/tower_options.h"

namespace muster {

/// Where the towers of a process run, and the streams that their work goes to. A lane is one of the
/// replicas that run at the same time.
///
/// Where the variables are on a GPU and some towers on others, each GPU is a slot: a stream, a copy
/// of the variables that every step writes again, and the towers that run there. Slot 0 is the
/// primary, whose stream is the loop's. A step forks the others from it and joins them, so no
/// thread waits and all of it can be captured. fork() and join() belong to the loop's thread.
class DeviceSlots {
 public:
  explicit DeviceSlots(const TowerOptions& options);

  /// Where the variables are, and with them the sums of gradients after a step.
  c10::Device primary() const { return primary_; }
  /// Where the gradients of a step are summed: on the GPU of all towers, else on the primary.
  c10::Device sums_on() const { return sums_on_; }
  /// Whether what the towers gave is still on its way to the primary when a step was given.
  bool sums_are_away() const { return sums_on_ != primary_; }

  std::size_t lanes() const { return lane_devices_.size(); }
  c10::Device device_of_lane(std::size_t lane) const { return lane_devices_[lane]; }
  /// 0 for all where there is one slot.
  std::size_t slot_of_lane(std::size_t lane) const { return slot_of_lane_[lane]; }
  /// Whether a lane reads a copy of the variables, and not those of the primary.
  bool is_away(std::size_t lane) const {
    return slot_of_lane_[lane] != 0 || lane_devices_[lane] != primary_;
  }
  /// Whether some lane does.
  bool has_copies() const;
  /// Whether lanes take turns, since their work is for one GPU's stream.
  bool take_turns() const { return shares_a_gpu_ && !has_branches(); }

  /// 1 where all lanes take the loop's stream.
  std::size_t count() const { return 1 + branches_.size(); }
  bool has_branches() const { return !branches_.empty(); }
  c10::Device device(std::size_t slot) const { return slot_devices_[slot]; }
  /// Where one of these replicas of this process runs.
  std::size_t slot_of(std::int64_t replica, ReplicaRange replicas) const;
  /// While it lives, this thread's work for the slot's device goes to its stream.
  [[nodiscard]] BranchStream::Use use(std::size_t slot) const;
  /// Work that slots are given from now on begins when the loop's stream has come so far.
  void fork() const;
  /// The loop's stream continues when all slots have come so far.
  void join() const;

 private:
  void assign(const TowerOptions& options);

  c10::Device primary_{c10::kCPU};
  c10::Device sums_on_{c10::kCPU};
  bool shares_a_gpu_ = false;
  std::vector<c10::Device> lane_devices_;
  std::vector<std::size_t> slot_of_lane_;
  std::vector<c10::Device> slot_devices_;
  /// The streams of the slots after the first. Ends after all that it is given work for.
  std::vector<BranchStream> branches_;
};

}  // namespace muster
