#include "muster/orchestration/process/process_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/orchestration/process/process_identity.h"
#include "muster/orchestration/process/task_process.h"
#include "muster/testing/eventually.h"
#include "muster/testing/temp_dir.h"

namespace muster::process {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class ProcessTree : public ::testing::Test {
 protected:
  ProcessTree() { adopt_orphans(); }
  ~ProcessTree() override {
    for (const pid_t process : {aside_, outside_}) {
      if (process > 0) ::kill(process, SIGKILL);
    }
    reap_orphans({});
  }

  // A process that a task starts in a session of its own, without the environment of the task, and
  // leaves behind. `before` is what its shell does first.
  pid_t leave_behind(const std::string& before = "", const std::string& environment = "env -i") {
    const std::string file = (folder_ / "pid").string();
    const pid_t task = start_process(
        {.command = {"/bin/sh", "-c",
                     environment + " setsid /bin/sh -c '" + before + " echo $$ > " + file +
                         ".new; mv " + file + ".new " + file + "; while :; do sleep 1; done' & " +
                         "while [ ! -e " + file + " ]; do sleep 0.01; done"},
         .log = folder_ / "log"});
    EXPECT_TRUE(testing::eventually([&] { return reap(task).has_value(); }));
    return std::stoi(testing::read_bytes(folder_ / "pid"));
  }
  static void end_all(milliseconds grace) {
    const auto find = [] {
      reap_orphans({});
      return descendants();
    };
    end_processes(find, grace, "a test", [](pid_t) {});
  }

  const testing::TempDir folder_;
  pid_t aside_ = 0;
  pid_t outside_ = 0;
};

TEST_F(ProcessTree, HoldsWhatLeftSessionGroupAndEnvironment) {
  aside_ = leave_behind();
  EXPECT_THAT(descendants(), Contains(aside_));
  end_all(std::chrono::seconds(30));
  EXPECT_FALSE(identify(aside_));
  EXPECT_THAT(descendants(), IsEmpty());
}

TEST_F(ProcessTree, KillsWhatDoesNotEndWhenAsked) {
  aside_ = leave_behind("trap \"\" TERM;");
  end_all(milliseconds(50));
  EXPECT_FALSE(identify(aside_));
}

TEST_F(ProcessTree, LeavesAloneWhatIsToOutliveIt) {
  outside_ = leave_behind("", "env -i " + std::string(kOutlivesEntry));
  EXPECT_THAT(descendants(), Not(Contains(outside_)));
  end_all(milliseconds(50));
  EXPECT_TRUE(identify(outside_));
}

TEST_F(ProcessTree, FindsProcessesByTheirEnvironment) {
  const std::string entry = "MUSTER_TEST_MARK=" + folder_.path().string();
  aside_ = leave_behind("", "env " + entry);
  EXPECT_THAT(processes_with(entry), Contains(aside_));
  EXPECT_THAT(processes_with(entry + "x"), IsEmpty());
}

TEST_F(ProcessTree, LeavesTheEndOfATaskToWhoWaitsForIt) {
  const pid_t task =
      start_process({.command = {"/bin/sh", "-c", "exit 7"}, .log = folder_ / "log"});
  ASSERT_TRUE(testing::eventually([&] { return !identify(task); }));
  reap_orphans({task});
  const auto end = reap(task);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->status, 7);
}

}  // namespace
}  // namespace muster::process
