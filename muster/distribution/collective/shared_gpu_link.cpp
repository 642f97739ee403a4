#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/system_identity.h"
#include "muster/distribution/collective/device_link_internal.h"
#include "muster/distribution/collective/mailbox_kernels_internal.h"

namespace muster::internal {
namespace {

/// The most bytes of a mailbox. Larger messages go through it part by part.
constexpr std::size_t kMostMailbox = 256 << 20;
/// Parts of messages begin at multiples of it.
constexpr std::size_t kAlignment = 16;

/// Memory by which a partner sends to this task: what the partner writes, and what it has taken.
///
/// A sender waits until its own `busy` is 0, writes the mailbox of the other, and sets `busy` and
/// the other's `full`. A receiver waits until its own `full` is 1, reads its mailbox, and clears it
/// and the other's `busy`.
struct Box {
  unsigned* full = nullptr;
  unsigned* busy = nullptr;
  std::byte* mailbox = nullptr;

  static constexpr std::size_t kMailboxAt = 256;
  static Box at(void* memory) {
    auto* const first = static_cast<std::byte*>(memory);
    return {.full = reinterpret_cast<unsigned*>(first),
            .busy = reinterpret_cast<unsigned*>(first + kMailboxAt / 2),
            .mailbox = first + kMailboxAt};
  }
};

/// Memory of this task that another may write, or that of another.
class SharedMemory {
 public:
  static SharedMemory make(std::size_t mailbox) {
    SharedMemory made;
    C10_CUDA_CHECK(cudaMalloc(&made.memory_, Box::kMailboxAt + mailbox));
    C10_CUDA_CHECK(cudaMemset(made.memory_, 0, Box::kMailboxAt));
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    return made;
  }
  static SharedMemory open(const std::string& handle) {
    cudaIpcMemHandle_t known;
    if (handle.size() != sizeof(known.reserved)) {
      throw DataLoss("a handle of GPU memory has {} bytes, and {} are due", handle.size(),
                     sizeof(known.reserved));
    }
    std::memcpy(known.reserved, handle.data(), handle.size());
    SharedMemory opened;
    const cudaError_t result =
        cudaIpcOpenMemHandle(&opened.memory_, known, cudaIpcMemLazyEnablePeerAccess);
    if (result != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      throw FailedPrecondition(
          "this task cannot share memory of the GPU with another one of this host: {}; "
          "{}=nccl in the environment of all tasks lets them send over NCCL",
          cudaGetErrorString(result), kGpuLinkVariable);
    }
    opened.is_others_ = true;
    return opened;
  }
  ~SharedMemory() {
    if (memory_ == nullptr) return;
    // The process may be ending, and CUDA with it.
    static_cast<void>(is_others_ ? cudaIpcCloseMemHandle(memory_) : cudaFree(memory_));
    static_cast<void>(cudaGetLastError());
  }
  SharedMemory(SharedMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), is_others_(other.is_others_) {}
  SharedMemory& operator=(SharedMemory&&) = delete;

  std::string handle() const {
    cudaIpcMemHandle_t handle;
    C10_CUDA_CHECK(cudaIpcGetMemHandle(&handle, memory_));
    return {handle.reserved, sizeof(handle.reserved)};
  }
  Box box() const { return Box::at(memory_); }

 private:
  SharedMemory() = default;

  void* memory_ = nullptr;
  bool is_others_ = false;
};

/// A word of the host's memory that the device reads.
class StopWord {
 public:
  StopWord() {
    C10_CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&word_), sizeof(*word_),
                                 cudaHostAllocMapped | cudaHostAllocPortable));
    *word_ = 0;
    C10_CUDA_CHECK(
        cudaHostGetDevicePointer(reinterpret_cast<void**>(&on_device_), word_, /*flags=*/0));
  }
  ~StopWord() {
    static_cast<void>(cudaFreeHost(word_));
    static_cast<void>(cudaGetLastError());
  }
  StopWord(const StopWord&) = delete;
  StopWord& operator=(const StopWord&) = delete;

  void set() { std::atomic_ref(*word_).store(1, std::memory_order_release); }
  const unsigned* on_device() const { return on_device_; }

 private:
  unsigned* word_ = nullptr;
  unsigned* on_device_ = nullptr;
};

/// Tensors that go one way between begin() and end(), as one row of bytes.
class Row {
 public:
  void add(const at::Tensor& values) {
    if (values.nbytes() > 0) {
      parts_.push_back({static_cast<std::byte*>(values.data_ptr()), values.nbytes()});
    }
  }
  bool is_empty() const { return parts_.empty(); }

  /// Takes what fits into a mailbox: by the place in it, parts of tensors.
  std::vector<std::pair<std::size_t, std::span<std::byte>>> take(std::size_t mailbox) {
    std::vector<std::pair<std::size_t, std::span<std::byte>>> taken;
    std::size_t used = 0;
    while (!parts_.empty() && used < mailbox) {
      std::span<std::byte>& part = parts_.front();
      const std::size_t bytes = std::min(part.size(), mailbox - used);
      taken.emplace_back(used, part.first(bytes));
      used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      part = part.subspan(bytes);
      if (part.empty()) parts_.erase(parts_.begin());
    }
    return taken;
  }

 private:
  std::vector<std::span<std::byte>> parts_;
};

class SharedGpuLink final : public DeviceLink {
 public:
  SharedGpuLink(c10::Device device, std::size_t mailbox, std::span<const std::size_t> partners,
                const SwapHandles& swap_handles)
      : device_(device), mailbox_(mailbox) {
    const c10::cuda::CUDAGuard on(device);
    std::map<std::size_t, std::string> handles;
    for (const std::size_t partner : partners) {
      const auto made = own_.emplace(partner, SharedMemory::make(mailbox_)).first;
      handles.emplace(partner, made->second.handle());
    }
    for (const auto& [partner, handle] : swap_handles(handles)) {
      theirs_.emplace(partner, SharedMemory::open(handle));
    }
  }
  ~SharedGpuLink() override {
    await_partners();
    abort();
  }

  void begin() override {}
  void send(const at::Tensor& values, std::size_t to) override { sent_[to].add(values); }
  void receive(const at::Tensor& values, std::size_t from) override { received_[from].add(values); }
  // Parts alternate, so that no task waits for one that waits for it.
  void end() override {
    while (!sent_.empty() || !received_.empty()) {
      go_on(sent_, [this](std::size_t to, Row& row) { send_part(to, row); });
      go_on(received_, [this](std::size_t from, Row& row) { receive_part(from, row); });
    }
  }

  // Work that waits on the device ends, and no more is written, in memory of others above all: the
  // messages that they have got so far are whole.
  void abort() override {
    is_aborted_ = true;
    stop_.set();
  }

 private:
  template <typename Work>
  static void go_on(std::map<std::size_t, Row>& rows, const Work& work) {
    for (auto& [partner, row] : rows) {
      if (!row.is_empty()) work(partner, row);
    }
    std::erase_if(rows, [](const auto& one) { return one.second.is_empty(); });
  }

  void send_part(std::size_t to, Row& row) const {
    const Box own = own_.at(to).box();
    const Box theirs = theirs_.at(to).box();
    C10_CUDA_CHECK(launch_wait(own.busy, 0, stop_.on_device(), stream()));
    for (const auto& [place, bytes] : row.take(mailbox_)) {
      C10_CUDA_CHECK(launch_copy(theirs.mailbox + place, bytes.data(), bytes.size(),
                                 stop_.on_device(), stream()));
    }
    C10_CUDA_CHECK(launch_set(own.busy, 1, theirs.full, 1, stop_.on_device(), stream()));
  }

  void receive_part(std::size_t from, Row& row) const {
    const Box own = own_.at(from).box();
    const Box theirs = theirs_.at(from).box();
    C10_CUDA_CHECK(launch_wait(own.full, 1, stop_.on_device(), stream()));
    for (const auto& [place, bytes] : row.take(mailbox_)) {
      C10_CUDA_CHECK(launch_copy(bytes.data(), own.mailbox + place, bytes.size(), stop_.on_device(),
                                 stream()));
    }
    C10_CUDA_CHECK(launch_set(own.full, 0, theirs.busy, 0, stop_.on_device(), stream()));
  }

  // They write here once more when they have taken the last message.
  void await_partners() const {
    constexpr std::chrono::seconds kLongest{1};
    const auto start = std::chrono::steady_clock::now();
    const auto is_waited_for = [](const auto& one) {
      unsigned busy = 0;
      const cudaError_t result =
          cudaMemcpy(&busy, one.second.box().busy, sizeof(busy), cudaMemcpyDeviceToHost);
      return result == cudaSuccess && busy != 0;
    };
    while (!is_aborted_ && std::ranges::any_of(own_, is_waited_for) &&
           std::chrono::steady_clock::now() - start < kLongest) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  cudaStream_t stream() const { return c10::cuda::getCurrentCUDAStream(device_.index()).stream(); }

  const c10::Device device_;
  const std::size_t mailbox_;
  StopWord stop_;
  bool is_aborted_ = false;
  /// By partner, the memory that it writes, and that which this task writes.
  std::map<std::size_t, SharedMemory> own_, theirs_;
  std::map<std::size_t, Row> sent_, received_;
};

}  // namespace

std::string shared_gpu_identity(c10::Device device) {
  const char* const wanted = std::getenv(kGpuLinkVariable);
  if (wanted != nullptr && std::string_view(wanted) == "nccl") return {};
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index()));
  // Handles of memory are those of one namespace of a running system.
  const std::string scope = own_namespace("ipc");
  if (scope.empty()) return {};
  std::string identity = fmt::format("{} {} ", boot_id(), scope);
  for (const char byte : properties.uuid.bytes) {
    identity += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return identity;
}

std::unique_ptr<DeviceLink> make_shared_gpu_link(c10::Device device, std::size_t largest,
                                                 std::span<const std::size_t> partners,
                                                 const SwapHandles& swap_handles) {
  // Beside the largest message there are a few numbers.
  const std::size_t mailbox = std::min(largest + (1 << 20), kMostMailbox);
  return std::make_unique<SharedGpuLink>(device, mailbox, partners, swap_handles);
}

}  // namespace muster::internal
