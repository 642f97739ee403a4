#include "muster/base/process_stat.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "muster/testing/eventually.h"

namespace muster {
namespace {

TEST(ProcessStat, IsThatOfThisProcess) {
  const auto own = process_stat(::getpid());
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->parent, ::getppid());
  EXPECT_EQ(own->state, 'R');
  EXPECT_GT(own->start_ticks, 0U);
  // Ticks are of 10 ms.
  timespec before{};
  ASSERT_EQ(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before), 0);
  while (process_stat(::getpid())->processor_time <= own->processor_time) {
  }
  timespec after{};
  ASSERT_EQ(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after), 0);
  EXPECT_GE(process_stat(::getpid())->processor_time.count() + 20,
            after.tv_sec * 1000 + after.tv_nsec / 1'000'000);
}

TEST(ProcessStat, SaysThatAProcessHasEndedAndIsGone) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(0);
  EXPECT_TRUE(testing::eventually([&] {
    const auto stat = process_stat(child);
    return stat && stat->has_ended() && stat->parent == ::getpid();
  }));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(process_stat(child).has_value());
}

}  // namespace
}  // namespace muster
