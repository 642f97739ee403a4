#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace muster::net {

/// Bytes of one owner, aligned to 64, not cleared. Large ones come from a pool of the process and
/// go back to it, so that a stream of large messages touches the same pages again instead of fresh
/// ones.
class Buffer {
 public:
  Buffer() noexcept = default;
  /// The contents are whatever was there. Throws std::bad_alloc.
  explicit Buffer(std::size_t size);
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::span<std::byte> bytes() noexcept { return {data_, size_}; }
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

  /// How much memory waits in the pool; never more than kMaxPooledBytes.
  static std::size_t pooled_bytes();
  static constexpr std::size_t kMaxPooledBytes = std::size_t{256} << 20;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace muster::net
