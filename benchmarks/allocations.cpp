#include "benchmarks/allocations.h"

#include <cerrno>
#include <cstdlib>

namespace {

thread_local std::int64_t allocations = 0;

}  // namespace

// glibc's own, under the names that it keeps for programs that have functions in their place.
extern "C" {
void* __libc_malloc(std::size_t bytes);                           // NOLINT: glibc's name
void* __libc_memalign(std::size_t alignment, std::size_t bytes);  // NOLINT: glibc's name

// The program's functions are those of all its libraries.
void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}

int posix_memalign(void** made, std::size_t alignment, std::size_t bytes) {
  ++allocations;
  *made = __libc_memalign(alignment, bytes);
  return *made == nullptr ? ENOMEM : 0;
}
}

namespace muster::bench {

std::int64_t allocations_of(const std::function<void()>& work) {
  for (int i = 0; i < 3; ++i) work();
  const std::int64_t before = allocations;
  work();
  return allocations - before;
}

}  // namespace muster::bench
