#include "muster/engine/arithmetic.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <thread>

namespace muster {
namespace {

TEST(UseCpuThreads, SetsTheNumberOfOneThread) {
  const int before = at::get_num_threads();
  int inside = 0;
  int in_a_new_thread = 0;
  std::thread([&] {
    use_cpu_threads(before + 2);
    inside = at::get_num_threads();
    std::thread([&] { in_a_new_thread = at::get_num_threads(); }).join();
    use_cpu_threads(before);  // OpenBLAS's is the process's.
  }).join();
  EXPECT_EQ(inside, before + 2);
  EXPECT_EQ(in_a_new_thread, before);
  EXPECT_EQ(at::get_num_threads(), before);
}

}  // namespace
}  // namespace muster
