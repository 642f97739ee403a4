// Clusters whose tasks are killed with kill -9, one after another and several at once, and started
// again; what becomes of the logs of ps tasks. random_faults_test.cpp does it at random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/data/checkpoint/step_log_check.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"
#include "tests/hash_alone.h"
#include "tests/latest_hash.h"
#include "tests/task_cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::Words;
using testing::operator+;

/// The logs of all servers of a cluster of two workers and two servers.
std::vector<StepLogSummary> check_logs(const TaskCluster& cluster) {
  const std::array folders{cluster.folder(3), cluster.folder(4)};
  std::vector<StepLogSummary> logs;
  EXPECT_EQ(testing::message_of([&] { logs = check_step_logs(folders); }), "nothing was thrown");
  return logs;
}

void expect_whole(const TaskCluster& cluster, std::int64_t steps) {
  const auto logs = check_logs(cluster);
  ASSERT_EQ(logs.size(), 2U);
  for (const StepLogSummary& log : logs) {
    EXPECT_EQ(log.first_step, 0) << log.file;
    EXPECT_EQ(log.last_step, steps) << log.file;
    EXPECT_EQ(log.committed, steps) << log.file;
    EXPECT_EQ(log.identity.replicas, 4) << log.file;
  }
}

// Some more than the last checkpoint has.
void wait_for_more_steps(const TaskCluster& cluster) {
  const Path folder = cluster.folder(3) / "ps_log" / "ps-0";
  ASSERT_TRUE(
      testing::eventually([&] { return file_exists(folder) && !list_step_logs(folder).empty(); }));
  const Path log = list_step_logs(folder).back();
  const auto bytes = std::filesystem::file_size(log);
  EXPECT_TRUE(
      testing::eventually([&] { return std::filesystem::file_size(log) > bytes + 50'000; }));
}

const auto kNeverBack = Not(HasSubstr("go back to the last checkpoint"));

TEST(Chaos, ServersWithALogAreKilledAndNobodyGoesBack) {
  const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(2, 2, flags + Words{"--step-ms", "10", "--ps-log"});
  ASSERT_TRUE(cluster.wait_for_step(10));
  cluster.kill_and_start(3);
  ASSERT_TRUE(cluster.wait_for_step(30));
  // Both at once: no other task has their variables.
  cluster.kill(3);
  cluster.kill(4);
  for (const std::size_t task : {3U, 4U}) {
    cluster.wait(task);
    cluster.start(task);
  }
  const std::string chief = cluster.wait_for_chief_and_end_the_rest();
  EXPECT_THAT(chief, kNeverBack);
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
  expect_whole(cluster, 60);
}

TEST(Chaos, AChiefThatIsKilledWithAServerGoesOnFromTheServersSteps) {
  const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "20"};
  TaskCluster cluster(2, 2, flags + Words{"--step-ms", "10", "--ps-log"});
  ASSERT_TRUE(cluster.wait_for_step(20));
  wait_for_more_steps(cluster);
  for (const std::size_t task : {0U, 4U}) cluster.kill(task);
  for (const std::size_t task : {0U, 4U}) {
    cluster.wait(task);
    cluster.start(task);
  }
  const std::string chief = cluster.wait_for_chief_and_end_the_rest();
  EXPECT_THAT(chief, AllOf(HasSubstr("of the servers"), kNeverBack));
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
  expect_whole(cluster, 60);
}

TEST(Chaos, ALogThatBeginsAnewAllTheTimeLosesNothing) {
  const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(2, 2, flags + Words{"--step-ms", "10", "--ps-log", "--ps-log-bytes", "1"});
  for (const std::int64_t step : {10, 20, 30}) {
    ASSERT_TRUE(cluster.wait_for_step(step));
    cluster.kill_and_start(3 + static_cast<std::size_t>(step / 10 % 2));
  }
  EXPECT_THAT(cluster.wait_for_chief_and_end_the_rest(), kNeverBack);
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
  for (const StepLogSummary& log : check_logs(cluster)) {
    EXPECT_GT(log.first_step, 30);
    EXPECT_EQ(log.last_step, 60);
  }
}

TEST(Chaos, ARunThatIsKilledAsAWholeGoesOnFromTheLogs) {
  const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "1000"};
  TaskCluster cluster(2, 2, flags + Words{"--step-ms", "10", "--ps-log"});
  ASSERT_TRUE(cluster.wait_for_step(0));
  wait_for_more_steps(cluster);
  for (std::size_t task = 0; task < cluster.size(); ++task) cluster.kill(task);
  for (std::size_t task = 0; task < cluster.size(); ++task) {
    cluster.wait(task);
    cluster.start(task);
  }
  EXPECT_THAT(cluster.wait_for_chief_and_end_the_rest(), HasSubstr("of the servers"));
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
  expect_whole(cluster, 60);
}

TEST(Chaos, ALogOfAnotherRunIsNotUsed) {
  const Words flags{"--steps", "40", "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(2, 2, flags + Words{"--step-ms", "10", "--ps-log"});
  ASSERT_TRUE(cluster.wait_for_step(20));
  for (std::size_t task = 0; task < cluster.size(); ++task) cluster.kill(task);
  for (std::size_t task = 0; task < cluster.size(); ++task) cluster.wait(task);
  // A new run with the same addresses starts from the beginning.
  file_system_for(cluster.chief_folder()).remove_all(cluster.chief_folder());
  for (std::size_t task = 0; task < cluster.size(); ++task) cluster.start(task);
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_THAT(cluster.wait(3).err, HasSubstr("is of another run, and is not used"));
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
  expect_whole(cluster, 40);
}

TEST(Chaos, ADamagedLogIsNamedWithWhatToDo) {
  const Words flags{"--steps", "1000", "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(2, 2, flags + Words{"--step-ms", "10", "--ps-log"});
  ASSERT_TRUE(cluster.wait_for_step(10));
  cluster.kill(3);
  cluster.wait(3);
  const Path log = list_step_logs(cluster.folder(3) / "ps_log" / "ps-0").back();
  testing::flip_byte(log, 2000);
  cluster.start(3);
  const Outcome server = cluster.wait(3);
  EXPECT_EQ(server.status, 1);
  EXPECT_THAT(server.err, AllOf(HasSubstr(log.string()), HasSubstr("at byte"),
                                HasSubstr("to go back to the last checkpoint")));
}

// As after a failure of the machine, of which the kernel had not written everything.
TEST(Chaos, ALogThatEndsBeforeTheOthersMakesAllGoBack) {
  const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(2, 2, flags + Words{"--step-ms", "10", "--ps-log"});
  ASSERT_TRUE(cluster.wait_for_step(20));
  cluster.kill(3);
  cluster.wait(3);
  const Path log = list_step_logs(cluster.folder(3) / "ps_log" / "ps-0").back();
  std::filesystem::resize_file(log, std::filesystem::file_size(log) / 2);
  cluster.start(3);
  EXPECT_THAT(cluster.wait_for_chief_and_end_the_rest(), Not(kNeverBack));
  EXPECT_THAT(cluster.wait(3).err, AllOf(HasSubstr("ends inside a record, which is cut off"),
                                         HasSubstr("its log ends before: restarting the log")));
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
}

TEST(Chaos, AServerWhoseDiskIsFullSaysSoAndLosesNothing) {
  const Words flags{"--steps", "60", "--replicas", "4", "--save-steps", "10"};
  TaskCluster cluster(2, 2, flags + Words{"--step-ms", "10", "--ps-log"});
  ASSERT_TRUE(cluster.wait_for_step(10));
  cluster.kill(3);
  cluster.wait(3);
  const Path log = list_step_logs(cluster.folder(3) / "ps_log" / "ps-0").back();
  const auto bytes = file_system_for(log).status(log)->size_bytes;
  cluster.start(3, {.most_file_bytes = bytes + 30'000});
  const Outcome server = cluster.wait(3);
  EXPECT_EQ(server.status, 1) << server.err;
  EXPECT_THAT(server.err, HasSubstr("make room and start it again"));
  cluster.start(3);
  EXPECT_THAT(cluster.wait_for_chief_and_end_the_rest(), kNeverBack);
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(flags));
  expect_whole(cluster, 60);
}

}  // namespace
}  // namespace muster
