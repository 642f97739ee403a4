#include "muster/platform/stores/large_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "muster/base/shared_block.h"

namespace muster::stores {
namespace {

constexpr std::uintptr_t kPageBytes = 4096;
/// Less than this has hardly a huge page in it.
constexpr std::size_t kLargeBytes = std::size_t{4} << 20;
/// Buffers come and go in turns: what is free at one moment is little.
constexpr std::size_t kMostSpareBytes = std::size_t{64} << 20;

std::mutex spare_mutex;
std::weak_ptr<SpareBuffers> spare_buffers;

bool take_spare(std::string& buffer, std::size_t bytes) {
  std::shared_ptr<SpareBuffers> spare;
  {
    const std::lock_guard lock(spare_mutex);
    spare = spare_buffers.lock();
  }
  return spare != nullptr && spare->take(buffer, bytes);
}

}  // namespace

void reserve_large(std::string& buffer, std::size_t bytes) {
  if (buffer.capacity() >= bytes) return;
  if (bytes >= kLargeBytes && buffer.empty() && take_spare(buffer, bytes)) return;
  buffer.reserve(bytes);
  if (bytes < kLargeBytes) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(buffer.data());
  const std::uintptr_t first = (begin + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::uintptr_t last = (begin + bytes) / kPageBytes * kPageBytes;
  // An advice: where it is refused, pages are small.
  static_cast<void>(::madvise(buffer.data() + (first - begin),
                              static_cast<std::size_t>(last - first), MADV_HUGEPAGE));
}

std::shared_ptr<SpareBuffers> SpareBuffers::shared() {
  const std::lock_guard lock(spare_mutex);
  std::shared_ptr<SpareBuffers> spare = spare_buffers.lock();
  if (spare == nullptr) {
    spare = std::make_shared<SpareBuffers>();
    spare_buffers = spare;
  }
  return spare;
}

void SpareBuffers::give(std::string buffer) {
  if (buffer.capacity() < kLargeBytes) return;
  const std::lock_guard lock(mutex_);
  std::size_t bytes = buffer.capacity();
  for (const std::string& kept : kept_) bytes += kept.capacity();
  if (bytes > kMostSpareBytes) return;
  buffer.clear();
  kept_.push_back(std::move(buffer));
}

bool SpareBuffers::take(std::string& buffer, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  // The one that was used last is in a cache, if any is.
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const std::string& kept) {
    return kept.capacity() >= bytes;
  });
  if (found == kept_.rend()) return false;
  buffer = std::move(*found);
  kept_.erase(std::next(found).base());
  return true;
}

std::shared_ptr<const std::string> shared_buffer(std::string bytes) {
  auto* const buffer = new std::string(std::move(bytes));
  return {buffer, BlockDeleter{[buffer, spare = SpareBuffers::shared()] {
            spare->give(std::move(*buffer));
            delete buffer;
          }}};
}

}  // namespace muster::stores
