#include <ATen/Context.h>

#include "muster/base/error.h"
#include "muster/device/gpu.h"

namespace muster {
namespace {

[[noreturn]] void refuse() {
  throw Internal("a GPU is used by a muster that was built without CUDA");
}

}  // namespace

int gpu_count() { return 0; }
std::string gpu_name(c10::Device) { refuse(); }
std::string why_no_gpu() {
  return at::globalContext().hasCUDA() ? "muster was built without nvcc"
                                       : "this libtorch is one for CPUs alone";
}

struct StreamScope::Impl {};
StreamScope::StreamScope(c10::Device device) {
  if (!device.is_cpu()) refuse();
}
StreamScope::~StreamScope() = default;

StreamHandle::StreamHandle(c10::Device device) : device_(device) {}
void StreamHandle::use() const {}

struct Feed::Impl {};
Feed::Feed(c10::Device, std::size_t) { refuse(); }
Feed::~Feed() = default;
Feed::Feed(Feed&&) noexcept = default;
Batch Feed::put(const Batch&) { refuse(); }
void Feed::used() { refuse(); }

struct DeviceWords::Impl {};
DeviceWords::DeviceWords(c10::Device, std::size_t) { refuse(); }
DeviceWords::~DeviceWords() = default;
std::span<std::int64_t> DeviceWords::next() { refuse(); }
void DeviceWords::send() { refuse(); }
const at::Tensor& DeviceWords::tensor() const { refuse(); }

struct CapturedWork::Impl {};
CapturedWork::CapturedWork(c10::Device) { refuse(); }
CapturedWork::~CapturedWork() = default;
std::optional<std::string> CapturedWork::capture(const std::function<void()>&) { refuse(); }
void CapturedWork::replay() { refuse(); }

void seed_device_generator(c10::Device, std::uint64_t) { refuse(); }

}  // namespace muster
