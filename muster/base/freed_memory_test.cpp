#include "muster/base/freed_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstring>
#include <memory>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MUSTER_OTHER_ALLOCATOR
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MUSTER_OTHER_ALLOCATOR
#endif

namespace muster {
namespace {

long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// The faults of taking, filling and freeing blocks as a step does.
long faults_of_a_step() {
  constexpr std::size_t kBytes = std::size_t{12} << 20;
  const long before = page_faults();
  for (int i = 0; i < 4; ++i) {
    const auto first = std::make_unique<char[]>(kBytes);
    const auto second = std::make_unique<char[]>(kBytes);
    std::memset(first.get(), i, kBytes);
    std::memset(second.get(), i, kBytes);
    // A compiler that optimises leaves out memory that is never read.
    asm volatile("" : : "r"(first.get()), "r"(second.get()) : "memory");
  }
  return page_faults() - before;
}

TEST(FreedMemory, IsTakenAgainWithoutFreshPages) {
#if defined(MUSTER_OTHER_ALLOCATOR) || !defined(__GLIBC__)
  GTEST_SKIP() << "another allocator replaces glibc's";
#endif
  keep_freed_memory();
  const long first = faults_of_a_step();
  const long second = faults_of_a_step();
  EXPECT_GT(first, 1000) << "the first step must take fresh pages, or this test shows nothing";
  EXPECT_LT(second, 100);
}

}  // namespace
}  // namespace muster
