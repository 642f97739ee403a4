#include "muster/distribution/membership/task_address_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/testing/message_of.h"

namespace muster::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TaskEnvironment task_of(const std::string& cluster, const std::string& type, int index) {
  return parse_tf_config(fmt::format(R"({{"cluster": {}, "task": {{"type": "{}", "index": {}}}}})",
                                     cluster, type, index));
}

TEST(TaskAddress, OnlyTasksOfTheClusterBelongToIt) {
  const auto chief =
      task_of(R"({"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]})", "chief", 0);
  for (const char* task : {"chief:0", "worker:0", "worker:1", "ps:0"}) {
    EXPECT_TRUE(has_task(chief, task)) << task;
  }
  for (const char* task : {"worker:2", "worker:99", "worker:-1", "worker:01", "worker:", "worker",
                           "chief:1", "ps:1", "master:0", "evaluator:0", ""}) {
    EXPECT_FALSE(has_task(chief, task)) << task;
  }
}

TEST(TaskAddress, AWorkerThatKnowsOnlyItselfTakesOthersOfItsJob) {
  const auto worker =
      task_of(R"({"chief": ["a:1"], "worker": {"7": "b:1"}, "ps": ["d:1"]})", "worker", 7);
  EXPECT_TRUE(has_task(worker, "worker:9"));
  EXPECT_FALSE(has_task(worker, "ps:1"));
  const auto first =
      task_of(R"({"chief": ["a:1"], "worker": {"0": "b:1"}, "ps": ["d:1"]})", "worker", 0);
  EXPECT_TRUE(has_task(first, "worker:1"));
  EXPECT_FALSE(has_task(first, "chief:1"));
}

TEST(TaskAddress, AtARendezvousTheNumberOfTasksDecides) {
  TaskEnvironment chief;
  chief.rendezvous = Rendezvous{.address = "127.0.0.1:1"};
  chief.num_worker_replicas = 3;
  EXPECT_TRUE(has_task(chief, "worker:1"));
  EXPECT_FALSE(has_task(chief, "worker:2"));
  EXPECT_FALSE(has_task(chief, "ps:0"));
}

TEST(TaskAddress, WithoutASecretATaskListensOnLoopbackAlone) {
  const auto local = task_of(R"({"chief": ["localhost:1"], "worker": ["h:1"]})", "chief", 0);
  EXPECT_EQ(listening_address(local, chief_of(local), false), "localhost:1");
  const auto far = task_of(R"({"chief": ["10.1.2.3:1"], "worker": ["h:1"]})", "chief", 0);
  EXPECT_EQ(listening_address(far, chief_of(far), true), ":1");
  const auto act = [&] { listening_address(far, chief_of(far), false); };
  EXPECT_THROW(act(), FailedPrecondition);
  EXPECT_THAT(message_of(act), AllOf(HasSubstr("chief:0 at 10.1.2.3:1"), HasSubstr("MUSTER_SECRET"),
                                     HasSubstr("MUSTER_LISTEN_WITHOUT_SECRET=1")));
}

}  // namespace
}  // namespace muster::internal
