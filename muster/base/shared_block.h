#pragma once

#include <functional>
#include <memory>

namespace muster {

/// The deleter of memory in which many things lie that go one by one: a range of a file, a block of
/// decompressed data. The last of them keeps all of it, so those kept for long are to be copied.
struct BlockDeleter {
  std::function<void()> free{};

  void operator()(const void*) const { free(); }
};

/// Whether these bytes are in such a block, and not in a mapping or in memory of their own.
inline bool is_shared_block(const std::shared_ptr<const void>& owner) {
  return std::get_deleter<BlockDeleter>(owner) != nullptr;
}

}  // namespace muster
