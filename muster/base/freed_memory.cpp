#include "muster/base/freed_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace muster {
namespace {

#if defined(__GLIBC__)
void set(int parameter, const char* variable, std::int64_t bytes) {
  if (std::getenv(variable) != nullptr) return;
  ::mallopt(parameter,
            static_cast<int>(std::min<std::int64_t>(bytes, std::numeric_limits<int>::max())));
}

void set_all() {
  constexpr std::int64_t kMiB = 1 << 20;
  const std::int64_t memory =
      std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGESIZE)};
  // The largest block that may come from the heap: beyond 32 MiB glibc does not listen.
  set(M_MMAP_THRESHOLD, "MALLOC_MMAP_THRESHOLD_", 32 * kMiB);
  set(M_TRIM_THRESHOLD, "MALLOC_TRIM_THRESHOLD_", std::max(64 * kMiB, memory / 4));
  // The heap grows in large steps; memory that is not touched costs nothing.
  set(M_TOP_PAD, "MALLOC_TOP_PAD_", 64 * kMiB);
}
#else
void set_all() {}
#endif

}  // namespace

void keep_freed_memory() {
  static std::once_flag once;
  std::call_once(once, set_all);
}

}  // namespace muster
