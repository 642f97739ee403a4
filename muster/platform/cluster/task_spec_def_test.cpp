#include "muster/platform/cluster/task_spec_def.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

const std::vector<std::string> kPs{"p0:1", "p1:1"};
const std::vector<std::string> kWorkers{"w0:1", "w1:1", "w2:1"};

TaskSpecDef spec(std::string type, std::int64_t index, std::optional<std::string> master = {}) {
  return TaskSpecDef({.type = std::move(type),
                      .index = index,
                      .ps_hosts = kPs,
                      .worker_hosts = kWorkers,
                      .master = std::move(master)});
}

TEST(TaskSpecDef, WithoutHostsItIsItsOwnMaster) {
  const TaskSpecDef alone({.type = "worker", .index = 2, .trial = "7"});
  EXPECT_FALSE(alone.is_distributed());
  EXPECT_EQ(alone.num_workers(), 1);
  EXPECT_EQ(alone.num_ps(), 0);
  EXPECT_EQ(alone.shard_index(), 2);
  EXPECT_TRUE(alone.is_master());
  EXPECT_EQ(alone.target(), std::nullopt);
  EXPECT_EQ(alone.trial(), "7");
}

TEST(TaskSpecDef, WithoutAMasterWorkerZeroActsAsOne) {
  EXPECT_EQ(spec("worker", 1).num_workers(), 3);
  EXPECT_EQ(spec("worker", 1).num_ps(), 2);
  EXPECT_EQ(spec("worker", 1).shard_index(), 1);
  EXPECT_TRUE(spec("worker", 0).is_master());
  EXPECT_FALSE(spec("worker", 1).is_master());
  EXPECT_FALSE(spec("ps", 0).is_master());
  EXPECT_EQ(spec("ps", 1).target(), "grpc://p1:1");
}

TEST(TaskSpecDef, WithAMasterWorkersCountBehindIt) {
  EXPECT_EQ(spec("master", 0, "m:1").num_workers(), 4);
  EXPECT_EQ(spec("master", 0, "m:1").shard_index(), 0);
  EXPECT_TRUE(spec("master", 0, "m:1").is_master());
  EXPECT_EQ(spec("worker", 2, "m:1").shard_index(), 3);
  EXPECT_FALSE(spec("worker", 0, "m:1").is_master());
  EXPECT_EQ(spec("master", 0, "m:1").target(), "grpc://m:1");
}

TEST(TaskSpecDef, RefusesATaskThatHasNoHost) {
  EXPECT_THAT(message_of([] { spec("worker", 3); }), HasSubstr("worker:3 is not a task"));
  EXPECT_THAT(message_of([] { spec("master", 0); }), HasSubstr("master:0 is not a task"));
  EXPECT_THAT(message_of([] { spec("boss", 0); }), HasSubstr("\"boss\""));
  EXPECT_THAT(message_of([] { spec("ps", -1); }), HasSubstr("negative"));
}

// Up to here its worker count includes the master, which hid the evaluator in the original.
TEST(TaskSpecDef, TheLastWorkerEvaluatesAlsoBesideAMaster) {
  for (const auto& master : {std::optional<std::string>(), std::optional<std::string>("m:1")}) {
    const TaskSpecDef last = spec("worker", 2, master).use_last_worker_as_evaluator();
    EXPECT_TRUE(last.is_evaluator());
    EXPECT_FALSE(last.is_master());
    EXPECT_EQ(last.target(), std::nullopt);
    EXPECT_TRUE(last.to_task_environment().is_evaluator());
    const TaskSpecDef other = spec("worker", 1, master).user_last_worker_as_evaluator();
    EXPECT_FALSE(other.is_evaluator());
    EXPECT_EQ(other.num_workers(), master ? 3 : 2);
    EXPECT_THAT(other.worker_hosts(), ElementsAre("w0:1", "w1:1"));
    EXPECT_FALSE(other.to_task_environment().cluster.has_job("master"));
  }
}

TEST(TaskSpecDef, AMasterThatIsLeftWithItsPsStaysTheOnlyMaster) {
  const TaskSpecDef worker(
      {.type = "worker", .ps_hosts = kPs, .worker_hosts = {"w:1"}, .master = "m:1"});
  const TaskSpecDef evaluator = worker.use_last_worker_as_evaluator();
  EXPECT_TRUE(evaluator.is_evaluator());
  EXPECT_FALSE(evaluator.is_master());
  EXPECT_EQ(evaluator.num_workers(), 1);
}

TEST(TaskSpecDef, SomebodyMustBeLeftToTrain) {
  const TaskSpecDef only({.type = "worker", .ps_hosts = kPs, .worker_hosts = {"w:1"}});
  EXPECT_THAT(message_of([&] { only.use_last_worker_as_evaluator(); }), HasSubstr("add a worker"));
}

TEST(CreateTaskSpecDef, TakesTfConfigFirst) {
  const auto read = create_task_spec_def(EnvironmentVariables{
      {"TF_CONFIG",
       R"({"cluster": {"ps": ["p:1"], "worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": "1", "trial": 3}})"},
      {"JOB_NAME", "ps"},
      {"PS_HOSTS", "x:1"}});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->type(), "worker");
  EXPECT_EQ(read->num_workers(), 2);
  EXPECT_EQ(read->trial(), "3");
}

// The original fails on both: it wants a list for `ps` and knows no chief.
TEST(CreateTaskSpecDef, TakesAChiefAndAClusterWithoutPs) {
  const auto read = create_task_spec_def(EnvironmentVariables{
      {"TF_CONFIG",
       R"({"cluster": {"chief": ["c:1"], "worker": ["a:1"]}, "task": {"type": "chief", "index": 0}})"}});
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->is_master());
  EXPECT_EQ(read->num_workers(), 2);
  EXPECT_EQ(read->num_ps(), 0);
}

TEST(CreateTaskSpecDef, TakesHostListsAndNothingFromNothing) {
  const auto read = create_task_spec_def(EnvironmentVariables{{"JOB_NAME", "worker"},
                                                              {"TASK_INDEX", "0"},
                                                              {"PS_HOSTS", "p:1"},
                                                              {"WORKER_HOSTS", "a:1,b:1"},
                                                              {"MASTER_HOST", "m:1"}});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->num_workers(), 3);
  EXPECT_EQ(read->master_host(), "m:1");
  EXPECT_FALSE(create_task_spec_def(EnvironmentVariables{}));
}

}  // namespace
}  // namespace muster
