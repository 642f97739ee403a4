#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "muster/distribution/membership/group_internal.h"

namespace muster::internal {

/// A link by which the tasks of a generation send tensors from one device's memory to another's.
/// Everything is given to the calling thread's stream, in the same order on both sides.
class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  /// Transfers between begin() and end() happen at the same time. Tensors are contiguous, and stay
  /// as they are until the device has come by.
  virtual void begin() = 0;
  virtual void send(const at::Tensor& values, std::size_t to) = 0;
  virtual void receive(const at::Tensor& values, std::size_t from) = 0;
  virtual void end() = 0;

  /// Ends what the device waits for, without a result, and everything that is given from now on.
  virtual void abort() = 0;
};

/// Over the group's own connections, for the CPU: what is given is done when end() returns. Throws
/// PeersChanged. The group outlives it.
std::unique_ptr<DeviceLink> make_host_link(Group& group, std::string what);

/// Why there is no NCCL; empty where there is.
std::string nccl_obstacle();
/// An identifier of a set of tasks for NCCL: one of them makes it, and all have it.
std::string make_nccl_id();
/// Over NCCL. All tasks call it with the same id. `check` is called while they are waited for; what
/// it throws ends the wait, and NCCL is left to itself.
std::unique_ptr<DeviceLink> make_nccl_link(const std::string& id, std::size_t rank,
                                           std::size_t ranks, c10::Device device,
                                           const std::function<void()>& check);

}  // namespace muster::internal
