#include "muster/train/engine/arithmetic.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdlib>
#include <vector>

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

TEST(DefaultCpuThreads, AreNoMoreThanTheEnvironmentSays) {
  const auto before = default_cpu_threads();
  ::setenv("OMP_NUM_THREADS", "1,2", 1);
  EXPECT_EQ(default_cpu_threads(), 1);
  ::setenv("OMP_NUM_THREADS", "many", 1);
  EXPECT_EQ(default_cpu_threads(), before);
  ::unsetenv("OMP_NUM_THREADS");
}

TEST(ThreadsForModel, FollowTheSizeOfItsLayers) {
  const auto threads = [](at::IntArrayRef sizes, bool sparse = false) {
    const std::vector<ModuleVariable> variables{{.tensor = at::empty(sizes), .sparse = sparse}};
    return threads_for_model(variables, 8);
  };
  EXPECT_EQ(threads({128, 64}), 1);
  EXPECT_EQ(threads({1024, 512}), 4);
  EXPECT_EQ(threads({4096, 4096}), 8);
  EXPECT_EQ(threads({4096, 4096}, /*sparse=*/true), 1);
  EXPECT_EQ(threads({128, 64, 3, 3}), 8);
  EXPECT_EQ(threads({1 << 20}), 1);
}

}  // namespace
}  // namespace muster
