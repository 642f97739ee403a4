#include "muster/base/file_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A folder that is open twice: a lock of one excludes the other.
class FileLock : public ::testing::Test {
 protected:
  FileLock() : ours_(open_folder()), others_(open_folder()) {}
  ~FileLock() override {
    ::close(ours_);
    ::close(others_);
    log::set_sink({});
    set_stall_after(std::chrono::seconds(30));
  }
  int open_folder() const { return ::open(dir_.path().c_str(), O_RDONLY | O_CLOEXEC); }

  const testing::TempDir dir_;
  const int ours_;
  const int others_;
};

TEST_F(FileLock, IsTakenWhenItIsFreeAndSharedByReaders) {
  EXPECT_TRUE(lock_file(ours_, LOCK_SH, dir_.path()));
  EXPECT_TRUE(lock_file(others_, LOCK_SH, dir_.path()));
}

TEST_F(FileLock, OfAnotherThatKeepsItEndsWithWhatToDo) {
  ASSERT_TRUE(lock_file(others_, LOCK_EX, dir_.path()));
  for (const int operation : {LOCK_SH, LOCK_EX}) {
    EXPECT_THAT(testing::message_of([&] {
                  lock_file(ours_, operation, dir_.path(), std::chrono::milliseconds(50));
                }),
                AllOf(HasSubstr("another process has locked " + dir_.path().string()),
                      HasSubstr("end it")));
  }
}

TEST_F(FileLock, IsWaitedForWithAReportAndThenTaken) {
  ASSERT_TRUE(lock_file(others_, LOCK_EX, dir_.path()));
  std::atomic<int> reports = 0;
  std::mutex mutex;
  std::string line;
  log::set_sink([&](log::Level, std::string_view said) {
    const std::lock_guard lock(mutex);
    line = said;
    ++reports;
  });
  set_stall_after(std::chrono::milliseconds(30));
  std::jthread releases([&] {
    EXPECT_TRUE(testing::eventually([&] { return reports > 0; }));
    ::flock(others_, LOCK_UN);
  });
  EXPECT_TRUE(lock_file(ours_, LOCK_EX, dir_.path()));
  releases.join();
  const std::lock_guard lock(mutex);
  EXPECT_THAT(line, HasSubstr("s for the lock of " + dir_.path().string()));
}

}  // namespace
}  // namespace muster
