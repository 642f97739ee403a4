#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/wait.h"
#include "muster/nn/device/gpu.h"

namespace muster {
namespace {

using at::cuda::CUDAEvent;
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;

// The host sleeps while it waits, since the input's threads have use for the processor.
CUDAEvent waiting_event() { return CUDAEvent(cudaEventDisableTiming | cudaEventBlockingSync); }

void wait_for(CUDAEvent& event, const char* what) {
  if (event.query()) return;
  const BlockingRegion region([what] { return fmt::format("the GPU: {}", what); });
  event.synchronize();
}

/// Memory for such a tensor elsewhere.
at::Tensor empty_as(const at::Tensor& tensor, const at::TensorOptions& where) {
  return at::empty(tensor.sizes(), where.dtype(tensor.scalar_type()),
                   tensor.suggest_memory_format());
}
at::TensorOptions pinned_memory() { return at::TensorOptions().pinned_memory(true); }

bool is_alike(const at::Tensor& memory, const at::Tensor& tensor) {
  return memory.defined() && memory.sizes() == tensor.sizes() &&
         memory.scalar_type() == tensor.scalar_type() &&
         memory.suggest_memory_format() == tensor.suggest_memory_format();
}

/// A column in pinned memory, the feed's own or the batch's, and on the device.
struct Column {
  at::Tensor own{};
  at::Tensor pinned{};
  at::Tensor placed{};
};

Features pinned(const Features& features) {
  Features copies;
  for (const auto& [name, value] : features) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    if (tensor == nullptr || !tensor->is_cpu() || tensor->is_pinned()) {
      copies.add(name, value);
    } else {
      copies.add(name, empty_as(*tensor, pinned_memory()).copy_(*tensor));
    }
  }
  return copies;
}

}  // namespace

int gpu_count() { return c10::cuda::device_count(); }

std::string gpu_name(c10::Device device) {
  return at::cuda::getDeviceProperties(device.index())->name;
}

void release_cached_memory() { c10::cuda::CUDACachingAllocator::emptyCache(); }

bool has_peer_access(c10::Device from, c10::Device to) {
  if (!from.is_cuda() || !to.is_cuda() || from == to) return true;
  int yes = 0;
  C10_CUDA_CHECK(cudaDeviceCanAccessPeer(&yes, from.index(), to.index()));
  return yes != 0;
}

std::string why_no_gpu() { return "CUDA finds no GPU; does nvidia-smi list one?"; }

struct StreamScope::Impl {
  explicit Impl(c10::Device device)
      : guard(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}
  c10::cuda::CUDAStreamGuard guard;
};

StreamScope::StreamScope(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::cuda::CUDAGuard on(device);
  c10::cuda::device_synchronize();
  impl_ = std::make_unique<Impl>(device);
}

StreamScope::~StreamScope() {
  if (impl_ == nullptr) return;
  // A failure of the device is reported by the next call that asks it for something.
  static_cast<void>(cudaStreamSynchronize(impl_->guard.current_stream().stream()));
}

struct OwnStream::Impl {
  CUDAStream stream;
};

struct OwnStream::Use::Impl {
  explicit Impl(const CUDAStream& stream) : guard(stream) {}
  c10::cuda::CUDAStreamGuard guard;
};

OwnStream::OwnStream(c10::Device device) {
  if (device.is_cpu()) return;
  getCurrentCUDAStream(device.index()).synchronize();
  impl_ = std::make_unique<Impl>(
      Impl{c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())});
}
OwnStream::~OwnStream() {
  if (impl_ != nullptr) static_cast<void>(cudaStreamSynchronize(impl_->stream.stream()));
}

OwnStream::Use::Use(const OwnStream& stream) {
  if (stream.impl_ != nullptr) impl_ = std::make_unique<Impl>(stream.impl_->stream);
}
OwnStream::Use::~Use() = default;

void OwnStream::wait() const {
  if (impl_ != nullptr) impl_->stream.synchronize();
}

struct BranchStream::Impl {
  c10::Device device;
  c10::Device home;
  CUDAStream stream;
  /// Where `home` is another device: copies between the two are given to this stream of it.
  std::optional<CUDAStream> at_home{};
  CUDAEvent forked{cudaEventDisableTiming};
  CUDAEvent joined{cudaEventDisableTiming};
  CUDAEvent joined_at_home{cudaEventDisableTiming};
};

BranchStream::BranchStream(c10::Device device, c10::Device home) {
  if (!device.is_cuda() || !home.is_cuda()) return;
  impl_ = std::make_unique<Impl>(
      Impl{.device = device,
           .home = home,
           .stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())});
  if (device != home) {
    impl_->at_home = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, home.index());
  }
}
BranchStream::~BranchStream() {
  if (impl_ == nullptr) return;
  static_cast<void>(cudaStreamSynchronize(impl_->stream.stream()));
  if (impl_->at_home) static_cast<void>(cudaStreamSynchronize(impl_->at_home->stream()));
}
BranchStream::BranchStream(BranchStream&&) noexcept = default;

void BranchStream::fork() const {
  if (impl_ == nullptr) return;
  impl_->forked.record(getCurrentCUDAStream(impl_->home.index()));
  impl_->forked.block(impl_->stream);
  if (impl_->at_home) impl_->forked.block(*impl_->at_home);
}

void BranchStream::join() const {
  if (impl_ == nullptr) return;
  const CUDAStream main = getCurrentCUDAStream(impl_->home.index());
  impl_->joined.record(impl_->stream);
  impl_->joined.block(main);
  if (!impl_->at_home) return;
  impl_->joined_at_home.record(*impl_->at_home);
  impl_->joined_at_home.block(main);
  // The result of a tower may be looked at where it lies. No stream but those of the capture can be
  // told of it while one is under way, and none needs to.
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(main.stream(), &status));
  if (status == cudaStreamCaptureStatusNone) {
    impl_->joined.block(getCurrentCUDAStream(impl_->device.index()));
  }
}

struct BranchStream::Use::Impl {
  explicit Impl(const BranchStream::Impl& branch) : guard(branch.stream) {
    if (!branch.at_home) return;
    at_home_before = getCurrentCUDAStream(branch.home.index());
    c10::cuda::setCurrentCUDAStream(*branch.at_home);
  }
  ~Impl() {
    if (at_home_before) c10::cuda::setCurrentCUDAStream(*at_home_before);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  c10::cuda::CUDAStreamGuard guard;
  std::optional<CUDAStream> at_home_before{};
};

BranchStream::Use::Use(const BranchStream* stream) {
  if (stream != nullptr && stream->impl_ != nullptr) impl_ = std::make_unique<Impl>(*stream->impl_);
}
BranchStream::Use::~Use() = default;

at::Tensor empty_for_copies(at::IntArrayRef sizes, at::ScalarType type, c10::Device device) {
  return at::empty(sizes, at::TensorOptions().dtype(type).pinned_memory(device.is_cuda()));
}

StreamHandle::StreamHandle(c10::Device device) : device_(device) {
  if (device.is_cuda()) id_ = getCurrentCUDAStream(device.index()).id();
}

void StreamHandle::use() const {
  if (!device_.is_cuda()) return;
  c10::cuda::setCurrentCUDAStream(CUDAStream(c10::Stream(c10::Stream::UNSAFE, device_, id_)));
}

struct Feed::Impl {
  struct Slot {
    std::vector<Column> columns{};
    CUDAEvent copied{cudaEventDisableTiming};
    CUDAEvent used = waiting_event();
    bool in_use = false;
  };

  Impl(c10::Device on, std::size_t depth)
      : device(on), copies(c10::cuda::getStreamFromPool(false, on.index())), slots(depth) {}

  at::Tensor place(Column& column, const at::Tensor& tensor) {
    if (!is_alike(column.placed, tensor)) {
      column.placed = empty_as(tensor, at::TensorOptions().device(device));
      // The memory may have been another tensor's, whose work is still to be done.
      CUDAEvent allocated(cudaEventDisableTiming);
      allocated.record(getCurrentCUDAStream(device.index()));
      allocated.block(copies);
    }
    if (tensor.is_pinned()) {
      column.pinned = tensor;
    } else {
      if (!is_alike(column.own, tensor)) column.own = empty_as(tensor, pinned_memory());
      column.pinned = column.own.copy_(tensor);
    }
    const c10::cuda::CUDAStreamGuard beside(copies);
    column.placed.copy_(column.pinned, /*non_blocking=*/true);
    return column.placed;
  }

  Features place(const Features& features, Slot& slot, std::size_t& next_column) {
    Features placed;
    for (const auto& [name, value] : features) {
      const auto* tensor = std::get_if<at::Tensor>(&value);
      if (tensor == nullptr || !tensor->is_cpu()) {
        placed.add(name, Features{{name, value}}.to(device).at(name));
        continue;
      }
      if (next_column == slot.columns.size()) slot.columns.emplace_back();
      placed.add(name, place(slot.columns[next_column++], *tensor));
    }
    return placed;
  }

  c10::Device device;
  CUDAStream copies;
  std::vector<Slot> slots;
  std::size_t next = 0;
  std::size_t last = 0;
};

Feed::Feed(c10::Device device, std::size_t depth) : impl_(std::make_unique<Impl>(device, depth)) {}
Feed::~Feed() {
  // Their memory goes back when it is no longer read.
  for (auto& slot : impl_ == nullptr ? std::span<Impl::Slot>() : std::span(impl_->slots)) {
    if (slot.in_use) static_cast<void>(cudaEventSynchronize(slot.used.event()));
  }
}
Feed::Feed(Feed&&) noexcept = default;

Batch Feed::put(const Batch& batch) {
  const c10::cuda::CUDAGuard on(impl_->device);
  const at::NoGradGuard no_grad;
  impl_->last = impl_->next;
  impl_->next = (impl_->next + 1) % impl_->slots.size();
  Impl::Slot& slot = impl_->slots[impl_->last];
  if (slot.in_use) wait_for(slot.used, "the work on an earlier batch");
  std::size_t column = 0;
  Batch placed{.features = impl_->place(batch.features, slot, column), .labels = {}};
  placed.labels = impl_->place(batch.labels, slot, column);
  slot.copied.record(impl_->copies);
  slot.copied.block(getCurrentCUDAStream(impl_->device.index()));
  return placed;
}

void Feed::used() {
  Impl::Slot& slot = impl_->slots[impl_->last];
  slot.used.record(getCurrentCUDAStream(impl_->device.index()));
  slot.in_use = true;
}

Batch pinned(const Batch& batch) {
  const at::NoGradGuard no_grad;
  return {.features = pinned(batch.features),
          .labels = pinned(batch.labels),
          .row_names = batch.row_names};
}

struct DeviceWords::Impl {
  static constexpr std::size_t kDepth = 4;
  struct Slot {
    at::Tensor pinned{};
    CUDAEvent sent = waiting_event();
    bool in_use = false;
  };
  c10::Device device;
  at::Tensor placed;
  std::vector<Slot> slots;
  std::size_t next = 0;
};

DeviceWords::DeviceWords(c10::Device device, std::size_t count) {
  const auto size = static_cast<std::int64_t>(count);
  impl_ = std::make_unique<Impl>(
      Impl{.device = device,
           .placed = at::zeros({size}, at::TensorOptions().dtype(at::kLong).device(device)),
           .slots = std::vector<Impl::Slot>(Impl::kDepth)});
  for (auto& slot : impl_->slots) {
    slot.pinned = at::zeros({size}, at::TensorOptions().dtype(at::kLong).pinned_memory(true));
  }
}
DeviceWords::~DeviceWords() = default;

std::span<std::int64_t> DeviceWords::next() {
  Impl::Slot& slot = impl_->slots[impl_->next];
  if (slot.in_use) wait_for(slot.sent, "an earlier step");
  return {slot.pinned.data_ptr<std::int64_t>(), static_cast<std::size_t>(slot.pinned.numel())};
}

void DeviceWords::send() {
  Impl::Slot& slot = impl_->slots[impl_->next];
  impl_->placed.copy_(slot.pinned, /*non_blocking=*/true);
  slot.sent.record(getCurrentCUDAStream(impl_->device.index()));
  slot.in_use = true;
  impl_->next = (impl_->next + 1) % impl_->slots.size();
}

const at::Tensor& DeviceWords::tensor() const { return impl_->placed; }

struct CapturedWork::Impl {
  /// libtorch's graph, which also can be given up half captured.
  struct Graph : at::cuda::CUDAGraph {
    void give_up() {
      try {
        if (graph_ == nullptr) capture_end();
      } catch (...) {
        static_cast<void>(cudaGetLastError());
      }
      // A graph that was captured, if not instantiated, is cleaned up by libtorch itself.
      if (graph_ != nullptr || has_graph_exec_) return;
      // The capture is over, but what libtorch does after a good one is still to be done.
      c10::cuda::CUDACachingAllocator::endAllocateToPool(capture_dev_, mempool_id_);
      c10::cuda::CUDACachingAllocator::releasePool(capture_dev_, mempool_id_);
      for (auto& [state, increment] : captured_generator_states_) state->capturing_ = false;
    }
  };

  /// libtorch's graph keeps memory of its own device alone: here is that of another, whose work is
  /// captured with it. Memory allocated there during the capture has no other use until this goes.
  class PoolElsewhere {
   public:
    using CaptureId = std::atomic<unsigned long long>;

    // Before the capture begins, as libtorch does it, so that no thread sees one without the other.
    PoolElsewhere(c10::Device device, std::shared_ptr<const CaptureId> capture)
        : device_(device), id_(at::cuda::graph_pool_handle()) {
      c10::cuda::CUDACachingAllocator::beginAllocateToPool(
          device_.index(), id_, [capture = std::move(capture)](cudaStream_t stream) {
            return capture_of(stream) == capture->load() && capture->load() != 0;
          });
    }
    ~PoolElsewhere() {
      try {
        end();
        c10::cuda::CUDACachingAllocator::releasePool(device_.index(), id_);
      } catch (...) {
        static_cast<void>(cudaGetLastError());  // The memory stays the pool's.
      }
    }
    PoolElsewhere(const PoolElsewhere&) = delete;
    PoolElsewhere& operator=(const PoolElsewhere&) = delete;

    /// The capture has ended.
    void end() {
      if (!std::exchange(is_capturing_, false)) return;
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device_.index(), id_);
    }

    /// 0: none is under way.
    static unsigned long long capture_of(cudaStream_t stream) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      unsigned long long id = 0;
      C10_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, &id));
      return status == cudaStreamCaptureStatusActive ? id : 0;
    }

   private:
    c10::Device device_;
    decltype(at::cuda::graph_pool_handle()) id_;
    bool is_capturing_ = true;
  };

  c10::Device device;
  /// Each once, without `device`.
  std::vector<c10::Device> others;
  /// Outlive the graph.
  std::vector<std::unique_ptr<PoolElsewhere>> pools{};
  std::unique_ptr<Graph> graph{};
};

CapturedWork::CapturedWork(c10::Device device, std::vector<c10::Device> others)
    : impl_(std::make_unique<Impl>(Impl{.device = device, .others = {}})) {
  for (const c10::Device other : others) {
    const bool is_known = other == device || std::ranges::count(impl_->others, other) > 0;
    if (!is_known) impl_->others.push_back(other);
  }
}
CapturedWork::~CapturedWork() = default;

std::optional<std::string> CapturedWork::capture(const std::function<void()>& work) {
  const c10::cuda::CUDAGuard on(impl_->device);
  getCurrentCUDAStream(impl_->device.index()).synchronize();
  auto capture = std::make_shared<Impl::PoolElsewhere::CaptureId>(0);
  std::vector<std::unique_ptr<Impl::PoolElsewhere>> pools;
  for (const c10::Device other : impl_->others) {
    pools.push_back(std::make_unique<Impl::PoolElsewhere>(other, capture));
  }
  auto graph = std::make_unique<Impl::Graph>();
  // Other threads continue with work of their own meanwhile.
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  try {
    capture->store(
        Impl::PoolElsewhere::capture_of(getCurrentCUDAStream(impl_->device.index()).stream()));
    work();
    graph->capture_end();
  } catch (...) {
    const std::string reason = describe(std::current_exception()).message;
    graph->give_up();
    // CUDA's advice for debugging follows.
    return reason.substr(0, reason.find('\n'));
  }
  for (const auto& pool : pools) pool->end();
  impl_->graph = std::move(graph);
  impl_->pools = std::move(pools);
  return std::nullopt;
}

void CapturedWork::replay() {
  const c10::cuda::CUDAGuard on(impl_->device);
  impl_->graph->replay();
}

void CapturedWork::drop() {
  impl_->graph.reset();
  impl_->pools.clear();
}

struct DeviceMark::Impl {
  c10::Device device;
  CUDAEvent event{cudaEventDisableTiming};
};

DeviceMark::DeviceMark(c10::Device device) {
  if (device.is_cuda()) impl_ = std::make_unique<Impl>(Impl{.device = device});
}
DeviceMark::~DeviceMark() = default;
DeviceMark::DeviceMark(DeviceMark&&) noexcept = default;

void DeviceMark::set() {
  if (impl_ != nullptr) impl_->event.record(getCurrentCUDAStream(impl_->device.index()));
}

bool DeviceMark::is_passed() const { return impl_ == nullptr || impl_->event.query(); }

void DeviceMark::hold_stream() const {
  if (impl_ != nullptr) impl_->event.block(getCurrentCUDAStream(impl_->device.index()));
}

struct SideStream::Impl {
  CUDAStream stream;
  DeviceMark done;
};

SideStream::SideStream(c10::Device device) {
  if (!device.is_cuda()) return;
  impl_ = std::make_unique<Impl>(
      Impl{.stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index()),
           .done = DeviceMark(device)});
}
SideStream::~SideStream() = default;

void SideStream::run(const std::function<void()>& work) {
  if (impl_ == nullptr) return work();
  {
    const c10::cuda::CUDAStreamGuard beside(impl_->stream);
    work();
    impl_->done.set();
  }
  impl_->done.hold_stream();
}

void wait_for_device(c10::Device device) {
  if (!device.is_cuda()) return;
  CUDAEvent done = waiting_event();
  done.record(getCurrentCUDAStream(device.index()));
  wait_for(done, "the work of a step");
}

void seed_device_generator(c10::Device device, std::uint64_t seed) {
  auto generator = at::cuda::detail::getDefaultCUDAGenerator(device.index());
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace muster
