#include "muster/train/engine/device_slots.h"

#include <algorithm>

namespace muster {

DeviceSlots::DeviceSlots(const TowerOptions& options) {
  const std::size_t lanes = options.lanes();
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    lane_devices_.push_back(options.on_gpus() ? options.devices[lane] : c10::Device(c10::kCPU));
  }
  const c10::Device first = lane_devices_[0];
  if (options.on_gpus() && options.variable_strategy == VariableStrategy::kDevices) {
    primary_ = first;
  }
  const bool one_device =
      std::ranges::all_of(options.devices, [&](c10::Device device) { return device == first; });
  sums_on_ = one_device ? first : primary_;
  shares_a_gpu_ = options.on_gpus() && one_device;
  assign(options);
}

// Each GPU is one, or each lane where devices are logical. Where variables are in host memory, or
// some towers, the host waits for gradients anyway.
void DeviceSlots::assign(const TowerOptions& options) {
  slot_of_lane_.assign(lanes(), 0);
  slot_devices_ = {primary_};
  const bool are_gpus = std::ranges::all_of(options.devices, &c10::Device::is_cuda);
  const bool has_slots =
      options.on_gpus() ? primary_.is_cuda() && are_gpus : options.logical_devices;
  if (!has_slots) return;
  for (std::size_t lane = 1; lane < lanes(); ++lane) {
    const c10::Device device = lane_devices_[lane];
    const auto known = std::ranges::find(slot_devices_, device);
    const bool is_new = options.logical_devices || known == slot_devices_.end();
    slot_of_lane_[lane] =
        is_new ? slot_devices_.size() : static_cast<std::size_t>(known - slot_devices_.begin());
    if (!is_new) continue;
    slot_devices_.push_back(device);
    branches_.emplace_back(device, primary_);
  }
}

bool DeviceSlots::has_copies() const {
  for (std::size_t lane = 0; lane < lanes(); ++lane) {
    if (is_away(lane)) return true;
  }
  return false;
}

std::size_t DeviceSlots::slot_of(std::int64_t replica, ReplicaRange replicas) const {
  return slot_of_lane_[static_cast<std::size_t>(replica - replicas.first) % lanes()];
}

BranchStream::Use DeviceSlots::use(std::size_t slot) const {
  return BranchStream::Use(slot == 0 ? nullptr : &branches_[slot - 1]);
}

void DeviceSlots::fork() const {
  for (const BranchStream& branch : branches_) branch.fork();
}

void DeviceSlots::join() const {
  for (const BranchStream& branch : branches_) branch.join();
}

}  // namespace muster
