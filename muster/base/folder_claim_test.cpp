#include "muster/base/folder_claim.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <optional>

#include "muster/testing/eventually.h"
#include "muster/testing/forked.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Forked;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::TempDir;

TEST(FolderClaim, IsRefusedWhileAnotherHoldsItAndLeavesNoFile) {
  const TempDir dir;
  const Path folder = dir / "new/job";
  std::optional<FolderClaim> first(folder);
  EXPECT_THAT(message_of([&] { FolderClaim second(folder); }),
              AllOf(HasSubstr("another process writes to " + folder.string()),
                    HasSubstr("take another folder")));
  EXPECT_THAT(file_system_for(folder).list(folder), IsEmpty());
  first.reset();
  EXPECT_NO_THROW(FolderClaim{folder});
}

TEST(FolderClaim, IsSeenByOthersWhileItIsHeld) {
  const TempDir dir;
  EXPECT_FALSE(is_claimed(dir / "none"));
  EXPECT_FALSE(is_claimed(dir.path()));
  {
    const FolderClaim claim(dir.path());
    EXPECT_TRUE(is_claimed(dir.path()));
  }
  EXPECT_FALSE(is_claimed(dir.path()));
}

TEST(FolderClaim, LeavesLocksOfTheFolderToOthers) {
  const TempDir dir;
  const FolderClaim claim(dir.path());
  const int descriptor = ::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_EQ(::flock(descriptor, LOCK_EX | LOCK_NB), 0);
  ::close(descriptor);
}

TEST(FolderClaim, EndsWithAKilledProcess) {
  const TempDir dir;
  const Path ready = dir / "ready";
  const Path folder = dir / "job";
  Forked other([&](const auto& hear) {
    const FolderClaim claim(folder);
    write_file_atomically(ready, "", /*durable=*/false);
    hear();
    return 0;
  });
  ASSERT_TRUE(testing::eventually([&] { return file_exists(ready); }));
  other.send(SIGKILL);
  EXPECT_NO_THROW(FolderClaim{folder});
}

}  // namespace
}  // namespace muster
