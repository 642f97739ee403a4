#include "muster/orchestration/process/process_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "muster/testing/temp_dir.h"

namespace muster::process {
namespace {

using muster::testing::read_bytes;
using muster::testing::TempDir;
using muster::testing::write_bytes;
using ::testing::StartsWith;

TEST(ProcessIdentity, TellsAProcessFromALaterOneWithItsNumber) {
  const auto self = identify(::getpid());
  ASSERT_TRUE(self);
  EXPECT_TRUE(is_alive(*self));
  ProcessIdentity earlier = *self;
  earlier.start_ticks -= 1;
  EXPECT_FALSE(is_alive(earlier));
  ProcessIdentity before_the_host_came_up = *self;
  before_the_host_came_up.boot_id = "other";
  EXPECT_FALSE(is_alive(before_the_host_came_up));
}

TEST(ProcessIdentity, PassesThroughAPidFileWhoseFirstLineIsTheNumber) {
  const TempDir dir;
  const auto self = identify(::getpid());
  write_pid_file(dir / "x.pid", *self);
  EXPECT_THAT(read_bytes(dir / "x.pid"), StartsWith(std::to_string(::getpid()) + "\n"));
  EXPECT_EQ(read_pid_file(dir / "x.pid"), self);
  for (const char* text : {"", "12", "x\nstarted 1 b", "-5\nstarted 1 b\n", "1\nstopped 1 b\n"}) {
    write_bytes(dir / "y.pid", text);
    EXPECT_EQ(read_pid_file(dir / "y.pid"), std::nullopt) << text;
  }
  EXPECT_EQ(read_pid_file(dir / "none.pid"), std::nullopt);
}

TEST(PidFiles, OfAFolderAreThoseThatNameAProcess) {
  const TempDir dir;
  write_pid_file(dir / "worker0.pid", *identify(::getpid()));
  write_bytes(dir / "torn.pid", "12");
  write_bytes(dir / "worker0.log", "12\nstarted 1 b\n");
  const auto files = read_pid_files(dir.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].name, "worker0");
  EXPECT_EQ(files[0].path, dir / "worker0.pid");
  EXPECT_EQ(files[0].identity, identify(::getpid()));
}

}  // namespace
}  // namespace muster::process
