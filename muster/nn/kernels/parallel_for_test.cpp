#include "muster/nn/kernels/parallel_for.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace muster::kernels {
namespace {

TEST(ParallelFor, CallsForEveryNumberOnce) {
  std::vector<std::atomic<int>> calls(1000);
  parallel_for(3, 1000, 10, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) ++calls[static_cast<std::size_t>(i)];
  });
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i], i < 3 ? 0 : 1) << i;
}

TEST(ParallelFor, RunsOnAsManyThreadsAsLibtorchHas) {
  const auto before = at::get_num_threads();
  at::set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_for(0, 2, 1, [&](std::int64_t, std::int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  at::set_num_threads(before);
  EXPECT_EQ(threads.size(), 2U);
}

TEST(ParallelFor, ThrowsWhatAPartThrows) {
  EXPECT_THROW(parallel_for(0, 100, 10,
                            [](std::int64_t, std::int64_t) { throw std::out_of_range("a part"); }),
               std::out_of_range);
}

}  // namespace
}  // namespace muster::kernels
