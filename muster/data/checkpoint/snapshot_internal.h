#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/checkpoint/tensor.h"

namespace muster {

/// A copy of tensors in memory that is used again and again: taking fresh pages from the kernel
/// costs more than the copy itself. Copying is cut into chunks that any number of threads take
/// turns at.
class Snapshot {
 public:
  /// Takes memory for this many bytes of values now, and touches it.
  void reserve(std::size_t bytes);

  /// Plans a copy of these tensors; no thread may be copying. Names, shapes and strings are copied
  /// at once, the values by copy_chunks().
  void plan(std::span<const TensorView> tensors);

  /// Copies chunks until none is left to begin; others may still be at theirs. Any thread.
  void copy_chunks();
  /// Whether every chunk has been copied.
  bool complete() const { return copied_.load(std::memory_order_acquire) == chunks_.size(); }

  /// The copies, once complete.
  std::span<const TensorView> tensors() const { return tensors_; }

 private:
  struct Chunk {
    const std::byte* from;
    std::byte* to;
    std::size_t size;
  };
  void add(const TensorView& tensor, std::byte* to);

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_ = 0;
  std::vector<TensorView> tensors_;
  /// Strings and lists that the copies' views point to; a deque leaves its elements where they are.
  std::deque<std::string> texts_;
  std::deque<std::vector<std::string_view>> lists_;
  std::vector<Chunk> chunks_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> copied_{0};
};

}  // namespace muster
