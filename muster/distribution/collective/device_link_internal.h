#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
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

/// "nccl": tasks that share a GPU send over NCCL too.
inline constexpr const char* kGpuLinkVariable = "MUSTER_GPU_LINK";

/// The same text in tasks that can share memory of one GPU of one host; empty where that is not
/// wanted, or there is no NCCL to fall back on.
std::string shared_gpu_identity(c10::Device device);
/// Gives each partner the handle for it, and returns theirs for this task.
using SwapHandles =
    std::function<std::map<std::size_t, std::string>(const std::map<std::size_t, std::string>&)>;
/// By memory of the GPU that all tasks share. `largest` are the bytes of the largest tensor, the
/// same in all tasks; `partners` are those that this one sends to or receives from.
std::unique_ptr<DeviceLink> make_shared_gpu_link(c10::Device device, std::size_t largest,
                                                 std::span<const std::size_t> partners,
                                                 const SwapHandles& swap_handles);

}  // namespace muster::internal
