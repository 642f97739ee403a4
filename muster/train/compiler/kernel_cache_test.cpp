#include "muster/train/compiler/kernel_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "muster/base/file_system.h"
#include "muster/testing/temp_dir.h"

namespace muster::compiler {
namespace {

std::string only_file(const std::filesystem::path& folder) {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_EQ(found, "");
    found = entry.path().string();
  }
  return found;
}

TEST(KernelCache, AnotherProcessFindsWhatOneHasKept) {
  const muster::testing::TempDir dir;
  KernelCache((dir / "a/b").string()).keep("text", "code");
  const KernelCache cache((dir / "a/b").string());
  EXPECT_EQ(cache.find("text"), "code");
  EXPECT_EQ(cache.find("other text"), std::nullopt);
}

TEST(KernelCache, ADamagedFileIsNotTaken) {
  const muster::testing::TempDir dir;
  const KernelCache cache((dir / "kernels").string());
  cache.keep("text", "code");
  const std::string file = only_file(dir / "kernels");
  std::string bytes = read_file(file);
  bytes.back() ^= 1;
  std::ofstream(file) << bytes;
  EXPECT_EQ(cache.find("text"), std::nullopt);
  std::ofstream(file, std::ios::trunc) << bytes.substr(0, 10);
  EXPECT_EQ(cache.find("text"), std::nullopt);
  cache.keep("text", "code");
  EXPECT_EQ(cache.find("text"), "code");
}

TEST(KernelCache, AFolderThatCannotBeMadeCostsNothingButTheCache) {
  const muster::testing::TempDir dir;
  std::ofstream(dir / "file") << "x";
  const KernelCache cache((dir / "file/kernels").string());
  cache.keep("text", "code");
  EXPECT_EQ(cache.find("text"), std::nullopt);
  const KernelCache none("");
  none.keep("text", "code");
  EXPECT_EQ(none.find("text"), std::nullopt);
}

TEST(ForEachInParallel, CallsOnceForEachAndHandsFailuresOn) {
  std::atomic<int> sum{0};
  for_each_in_parallel(100, [&](std::size_t i) { sum += static_cast<int>(i); });
  EXPECT_EQ(sum, 4950);
  EXPECT_THROW(for_each_in_parallel(3,
                                    [](std::size_t i) {
                                      if (i == 1) throw std::runtime_error("one");
                                    }),
               std::runtime_error);
}

}  // namespace
}  // namespace muster::compiler
