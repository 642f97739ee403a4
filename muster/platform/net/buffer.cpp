#include "muster/platform/net/buffer.h"

#include <array>
#include <bit>
#include <mutex>
#include <new>
#include <vector>

namespace muster::net {
namespace {

constexpr std::align_val_t kAlignment{64};
// Below, the allocator's own caches do as well.
constexpr std::size_t kSmallestPooled = std::size_t{64} << 10;
// Above, a block is too much to keep for a next time that may not come.
constexpr std::size_t kLargestPooled = std::size_t{128} << 20;

std::byte* allocate(std::size_t size) {
  return static_cast<std::byte*>(::operator new(size, kAlignment));
}

void release(std::byte* data) noexcept { ::operator delete(data, kAlignment); }

bool is_pooled(std::size_t size) { return size >= kSmallestPooled && size <= kLargestPooled; }

/// Blocks that wait for their next owner, by power of two. What a block has beyond its buffer's
/// size is address space, not memory, until it is touched.
class Pool {
 public:
  /// Leaked on purpose: buffers may be freed while statics are destroyed.
  static Pool& instance() {
    static auto* const pool = new Pool;
    return *pool;
  }

  std::byte* take(std::size_t size) {
    const std::size_t capacity = std::bit_ceil(size);
    {
      std::lock_guard lock(mutex_);
      auto& blocks = blocks_of(capacity);
      if (!blocks.empty()) {
        std::byte* const block = blocks.back();
        blocks.pop_back();
        pooled_bytes_ -= capacity;
        return block;
      }
    }
    return allocate(capacity);
  }

  void give_back(std::byte* block, std::size_t size) noexcept {
    const std::size_t capacity = std::bit_ceil(size);
    {
      std::lock_guard lock(mutex_);
      auto& blocks = blocks_of(capacity);
      if (pooled_bytes_ + capacity <= Buffer::kMaxPooledBytes && blocks.size() < kMostBlocks) {
        blocks.push_back(block);
        pooled_bytes_ += capacity;
        return;
      }
    }
    release(block);
  }

  std::size_t pooled_bytes() {
    std::lock_guard lock(mutex_);
    return pooled_bytes_;
  }

 private:
  static constexpr std::size_t kClasses = std::bit_width(kLargestPooled / kSmallestPooled);
  static constexpr std::size_t kMostBlocks = 64;

  // Room for all blocks at once, so that giving one back never allocates.
  Pool() {
    for (auto& blocks : blocks_) blocks.reserve(kMostBlocks);
  }

  std::vector<std::byte*>& blocks_of(std::size_t capacity) {
    return blocks_[static_cast<std::size_t>(std::bit_width(capacity / kSmallestPooled)) - 1];
  }

  std::mutex mutex_;
  std::array<std::vector<std::byte*>, kClasses> blocks_;
  std::size_t pooled_bytes_ = 0;
};

}  // namespace

Buffer::Buffer(std::size_t size) : size_(size) {
  if (size == 0) return;
  data_ = is_pooled(size) ? Pool::instance().take(size) : allocate(size);
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (is_pooled(size_)) {
    Pool::instance().give_back(data_, size_);
  } else {
    release(data_);
  }
}

std::size_t Buffer::pooled_bytes() { return Pool::instance().pooled_bytes(); }

}  // namespace muster::net
