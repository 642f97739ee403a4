#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/nn/device/gpu.h"

namespace muster {
namespace {

[[noreturn]] void refuse() {
  throw Internal("a GPU is used by a muster that was built without CUDA");
}

void check(c10::Device device) {
  if (!device.is_cpu()) refuse();
}

}  // namespace

int gpu_count() { return 0; }
std::string gpu_name(c10::Device) { refuse(); }
void release_cached_memory() {}

bool has_peer_access(c10::Device, c10::Device) { return true; }
std::string why_no_gpu() {
  return at::globalContext().hasCUDA() ? "muster was built without nvcc"
                                       : "this libtorch is one for CPUs alone";
}

struct StreamScope::Impl {};
StreamScope::StreamScope(c10::Device device) { check(device); }
StreamScope::~StreamScope() = default;

struct OwnStream::Impl {};
struct OwnStream::Use::Impl {};
OwnStream::OwnStream(c10::Device device) { check(device); }
OwnStream::~OwnStream() = default;
OwnStream::Use::Use(const OwnStream&) {}
OwnStream::Use::~Use() = default;
void OwnStream::wait() const {}

struct BranchStream::Impl {};
struct BranchStream::Use::Impl {};
BranchStream::BranchStream(c10::Device device, c10::Device home) {
  check(device);
  check(home);
}
BranchStream::~BranchStream() = default;
BranchStream::BranchStream(BranchStream&&) noexcept = default;
void BranchStream::fork() const {}
void BranchStream::join() const {}
BranchStream::Use::Use(const BranchStream*) {}
BranchStream::Use::~Use() = default;

at::Tensor empty_for_copies(at::IntArrayRef sizes, at::ScalarType type, c10::Device device) {
  check(device);
  return at::empty(sizes, type);
}

StreamHandle::StreamHandle(c10::Device device) : device_(device) {}
void StreamHandle::use() const {}

struct Feed::Impl {};
Feed::Feed(c10::Device device, std::size_t) { check(device); }
Feed::~Feed() = default;
Feed::Feed(Feed&&) noexcept = default;
Batch Feed::put(const Batch& batch) { return batch; }
void Feed::used() {}

Batch pinned(const Batch& batch) { return batch; }

struct DeviceWords::Impl {
  at::Tensor words;
};
DeviceWords::DeviceWords(c10::Device device, std::size_t count) {
  check(device);
  impl_ = std::make_unique<Impl>(Impl{at::zeros({static_cast<std::int64_t>(count)}, at::kLong)});
}
DeviceWords::~DeviceWords() = default;
std::span<std::int64_t> DeviceWords::next() {
  return {impl_->words.data_ptr<std::int64_t>(), static_cast<std::size_t>(impl_->words.numel())};
}
void DeviceWords::send() {}
const at::Tensor& DeviceWords::tensor() const { return impl_->words; }

struct CapturedWork::Impl {};
CapturedWork::CapturedWork(c10::Device device, std::vector<c10::Device>) { check(device); }
CapturedWork::~CapturedWork() = default;
std::optional<std::string> CapturedWork::capture(const std::function<void()>&) {
  return "the CPU has no graphs";
}
void CapturedWork::replay() { refuse(); }
void CapturedWork::drop() {}

struct DeviceMark::Impl {};
DeviceMark::DeviceMark(c10::Device device) { check(device); }
DeviceMark::~DeviceMark() = default;
DeviceMark::DeviceMark(DeviceMark&&) noexcept = default;
void DeviceMark::set() {}
bool DeviceMark::is_passed() const { return true; }
void DeviceMark::hold_stream() const {}

struct SideStream::Impl {};
SideStream::SideStream(c10::Device device) { check(device); }
SideStream::~SideStream() = default;
void SideStream::run(const std::function<void()>& work) { work(); }

void wait_for_device(c10::Device device) { check(device); }

void seed_device_generator(c10::Device, std::uint64_t) { refuse(); }

}  // namespace muster
