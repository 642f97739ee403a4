// `muster cluster check-logs`, on logs that the test writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "muster/data/checkpoint/step_log.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::read_bytes;
using testing::run_program;
using testing::TempDir;
using testing::write_bytes;
using Kind = StepLogRecord::Kind;

void write_log(const Path& folder, const std::string& task, std::int64_t replicas) {
  StepLog log(folder);
  log.begin({.step = 5, .identity = {"run", task, "model", 2}}, {});
  for (std::int64_t step = 5; step < 8; ++step) {
    log.append({.kind = Kind::kPrepared, .step = step, .pushes = {{"chief:0", 0, replicas}}});
    log.append({.kind = Kind::kCommitted, .step = step});
  }
  log.append({.kind = Kind::kEnded, .step = 8});
}

Outcome check(const Path& folder) {
  return run_program(MUSTER_PROGRAM, {"cluster", "check-logs", folder.string()});
}

TEST(CheckLogs, SaysWhatTheLogsOfAllServersHold) {
  const TempDir folder;
  write_log(folder.path() / "ps_log" / "ps-0", "ps:0", 2);
  write_log(folder.path() / "ps_log" / "ps-1", "ps:1", 2);
  const Outcome outcome = check(folder.path());
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("ps-0/00000001.log ps:0 steps 5 to 8, 2 replicas each, ended\n"),
                    HasSubstr("ps-1/00000001.log ps:1 steps 5 to 8"),
                    HasSubstr("every step has every replica once\n")));
}

TEST(CheckLogs, FailsWithTheFileAndTheStepThatIsNotWhole) {
  const TempDir folder;
  write_log(folder.path() / "ps_log" / "ps-0", "ps:0", 1);
  const Outcome outcome = check(folder.path());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("00000001.log"), HasSubstr("step 6"),
                                 HasSubstr("replica 1 of 2 is not in it")));
}

TEST(CheckLogs, SaysOfALogThatEndsInsideARecordHowFarItGoes) {
  const TempDir folder;
  const Path task = folder.path() / "ps_log" / "ps-0";
  {
    StepLog log(task);
    log.begin({.step = 5, .identity = {"run", "ps:0", "model", 2}}, {});
  }
  const Path file = list_step_logs(task).back();
  const std::string base = read_bytes(file);
  {
    StepLog log(task);
    log.recover({"run", "ps:0", "model", 2}, [](const StepLogRecord&, std::string_view) {});
    log.append({.kind = Kind::kPrepared, .step = 5, .pushes = {{"chief:0", 0, 2}}});
  }
  const std::string whole = read_bytes(file);
  for (const std::size_t size : {base.size() + 1, base.size() + 12, whole.size() - 1}) {
    write_bytes(file, whole.substr(0, size));
    const Outcome outcome = check(folder.path());
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("ps:0 steps 5 to 5, 2 replicas each, ends inside a record"));
  }
}

TEST(CheckLogs, NamesAFolderThatHoldsNone) {
  const TempDir folder;
  const Outcome outcome = check(folder.path());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr(folder.path().string()));
}

}  // namespace
}  // namespace muster
