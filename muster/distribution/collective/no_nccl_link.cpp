#include "muster/base/error.h"
#include "muster/distribution/collective/device_link_internal.h"

namespace muster::internal {

std::string nccl_obstacle() { return "muster was built without NCCL"; }

std::string make_nccl_id() { throw Internal("{}", nccl_obstacle()); }

std::unique_ptr<DeviceLink> make_nccl_link(const std::string&, std::size_t, std::size_t,
                                           c10::Device, const std::function<void()>&) {
  throw Internal("{}", nccl_obstacle());
}

std::string shared_gpu_identity(c10::Device) { return {}; }

std::unique_ptr<DeviceLink> make_shared_gpu_link(c10::Device, std::size_t,
                                                 std::span<const std::size_t>, const SwapHandles&) {
  throw Internal("{}", nccl_obstacle());
}

}  // namespace muster::internal
