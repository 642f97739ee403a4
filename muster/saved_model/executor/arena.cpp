#include <algorithm>

#include "muster/saved_model/executor/arena_internal.h"

namespace muster::executor {

void* Arena::take_from_new_block(std::size_t bytes) {
  if (bytes > kMostBytes || block_bytes_ > kMostBytes - bytes) return nullptr;
  add_block(std::clamp(block_bytes_, std::max(bytes, kLeastBlock), kMostBytes - block_bytes_));
  return take(bytes);
}

void Arena::add_block(std::size_t bytes) {
  blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(bytes), bytes});
  block_bytes_ += bytes;
  next_ = blocks_.back().memory.get();
  left_ = bytes;
}

void Arena::reset() {
  // One block has room for all that the run before took.
  if (blocks_.size() > 1) {
    const std::size_t bytes = block_bytes_;
    blocks_.clear();
    block_bytes_ = 0;
    add_block(bytes);
  }
  if (blocks_.empty()) return;
  next_ = blocks_[0].memory.get();
  left_ = blocks_[0].bytes;
}

bool ArenaValue::set_shape(std::span<const std::int64_t> shape) {
  if (shape.size() > kMostAxes) return false;
  bool is_empty = false;
  // Product of the sizes other than zero, so that strides stay below 64 bits, too.
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0 || shape[i] > static_cast<std::int64_t>(Arena::kMostBytes)) return false;
    is_empty = is_empty || shape[i] == 0;
    elements *= std::max<std::int64_t>(shape[i], 1);
    if (elements > static_cast<std::int64_t>(Arena::kMostBytes)) return false;
    sizes[i] = shape[i];
  }
  rank = static_cast<std::uint8_t>(shape.size());
  count = is_empty ? 0 : elements;
  return true;
}

}  // namespace muster::executor
