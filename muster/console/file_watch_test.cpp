#include "muster/console/file_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>

#include "muster/testing/eventually.h"
#include "muster/testing/temp_dir.h"

namespace muster::console {
namespace {

class FileWatchTest : public ::testing::Test {
 protected:
  bool is_told(const Path& folder) {
    return testing::eventually([&] {
      const std::lock_guard lock(mutex_);
      return told_.erase(folder) > 0;
    });
  }

  bool has_told(const Path& folder) {
    const std::lock_guard lock(mutex_);
    return told_.contains(folder);
  }

  testing::TempDir folder_;
  std::mutex mutex_;
  std::set<Path> told_;
  FileWatch watch_{[this](const std::set<Path>& folders) {
                     const std::lock_guard lock(mutex_);
                     told_.insert(folders.begin(), folders.end());
                   },
                   std::chrono::milliseconds(1)};
};

TEST_F(FileWatchTest, TellsOfFilesThatComeGrowAndGo) {
  watch_.add(folder_.path());
  EXPECT_TRUE(is_told(folder_.path()));
  testing::write_bytes(folder_ / "file", "x");
  EXPECT_TRUE(is_told(folder_.path()));
  std::filesystem::rename(folder_ / "file", folder_ / "other");
  EXPECT_TRUE(is_told(folder_.path()));
  std::filesystem::remove(folder_ / "other");
  EXPECT_TRUE(is_told(folder_.path()));
}

TEST_F(FileWatchTest, WatchesFoldersThatAreAddedLaterAndAgain) {
  watch_.add(folder_.path());
  EXPECT_TRUE(is_told(folder_.path()));
  const Path inner = folder_ / "inner";
  for (int i = 0; i < 3; ++i) {
    std::filesystem::create_directory(inner);
    EXPECT_TRUE(is_told(folder_.path()));
    watch_.add(inner);
    EXPECT_TRUE(is_told(inner));
    testing::write_bytes(inner / "file", "x");
    EXPECT_TRUE(is_told(inner));
    std::filesystem::remove_all(inner);
    EXPECT_TRUE(is_told(inner));
    EXPECT_TRUE(is_told(folder_.path()));
  }
}

TEST_F(FileWatchTest, TellsOnceOfAFolderThatIsAdded) {
  testing::write_bytes(folder_ / "file", "written before");
  watch_.add(folder_.path());
  EXPECT_TRUE(is_told(folder_.path()));
  watch_.add(folder_.path());
  std::filesystem::create_directory(folder_ / "inner");
  EXPECT_TRUE(is_told(folder_.path()));
  watch_.add(folder_ / "inner");
  EXPECT_TRUE(is_told(folder_ / "inner"));
  EXPECT_FALSE(has_told(folder_.path()));
}

TEST_F(FileWatchTest, AFolderThatIsNotThereIsPassedOver) { watch_.add(folder_ / "none"); }

}  // namespace
}  // namespace muster::console
