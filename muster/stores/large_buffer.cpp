#include "muster/stores/large_buffer.h"

#include <sys/mman.h>

#include <cstdint>

namespace muster::stores {
namespace {

constexpr std::uintptr_t kPageBytes = 4096;
/// Less than this has hardly a huge page in it.
constexpr std::size_t kLargeBytes = std::size_t{4} << 20;

}  // namespace

void reserve_large(std::string& buffer, std::size_t bytes) {
  if (buffer.capacity() >= bytes) return;
  buffer.reserve(bytes);
  if (bytes < kLargeBytes) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(buffer.data());
  const std::uintptr_t first = (begin + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::uintptr_t last = (begin + bytes) / kPageBytes * kPageBytes;
  // An advice: where it is refused, pages are small.
  static_cast<void>(::madvise(buffer.data() + (first - begin),
                              static_cast<std::size_t>(last - first), MADV_HUGEPAGE));
}

}  // namespace muster::stores
