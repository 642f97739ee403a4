#include "muster/orchestration/process/task_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "muster/orchestration/process/process_identity.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::process {
namespace {

using muster::testing::eventually;
using muster::testing::message_of;
using muster::testing::read_bytes;
using muster::testing::TempDir;
using ::testing::HasSubstr;

TEST(TaskProcess, EndsWithEverythingInItsGroup) {
  const TempDir dir;
  const pid_t process =
      start_process({.command = {"sh", "-c", "sleep 600 & echo $! > $0; exit 3", dir / "left"},
                     .environment = {"A=b"},
                     .log = dir / "log"});
  std::optional<EndOfProcess> end;
  ASSERT_TRUE(eventually([&] { return (end = reap(process)).has_value(); }));
  EXPECT_EQ(end->status, 3);
  const pid_t left = std::stoi(read_bytes(dir / "left"));
  EXPECT_TRUE(eventually([&] { return !identify(left); }));
}

TEST(TaskProcess, ThatCannotStartIsNamed) {
  const TempDir dir;
  EXPECT_THAT(
      message_of([&] { start_process({.command = {"/no/such/program"}, .log = dir / "log"}); }),
      HasSubstr("/no/such/program"));
}

}  // namespace
}  // namespace muster::process
