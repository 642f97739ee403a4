#include "muster/cluster/cluster_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/cluster/tf_config.h"
#include "muster/flags/flags.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const ClusterFlags& flags, const TaskEnvironment& task) {
  return testing::message_of([&] { check_cluster_flags(flags, task); });
}

TaskEnvironment worker_with_ps() {
  return parse_tf_config(R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]},
                             "task": {"type": "worker", "index": 0}})");
}

TEST(ClusterFlags, ThoseForPsTasksAreRefusedWithoutAny) {
  for (const auto& [flags, name] :
       {std::pair(ClusterFlags{.sync = false}, "--sync=false"),
        std::pair(ClusterFlags{.strategy = "ps"}, "--strategy=ps"),
        std::pair(ClusterFlags{.ps_log = true}, "--ps-log"),
        std::pair(ClusterFlags{.backup_replicas = 1}, "--backup-replicas")}) {
    EXPECT_THAT(refusal(flags, {}), AllOf(HasSubstr(name), HasSubstr("muster launch --ps 1")));
    EXPECT_NO_THROW(check_cluster_flags(flags, worker_with_ps()));
  }
}

TEST(ClusterFlags, CopiesInEveryTaskLeaveNothingForPs) {
  EXPECT_THAT(refusal({.strategy = "collective"}, worker_with_ps()),
              HasSubstr("the cluster's 1 ps would have nothing to do"));
  EXPECT_NO_THROW(check_cluster_flags({.strategy = "collective"}, {}));
}

TEST(ClusterFlags, ABoundIsForTasksThatDoNotWaitForEachOther) {
  EXPECT_THAT(refusal({.max_staleness = 3}, worker_with_ps()), HasSubstr("give --sync=false"));
  EXPECT_NO_THROW(check_cluster_flags({.sync = false, .max_staleness = 3}, worker_with_ps()));
}

TEST(ClusterFlags, AreThoseThatMessagesName) {
  ClusterFlags flags;
  FlagSet set("Trains.");
  add_cluster_flags(set, flags);
  set.parse({"--sync=false", "--max-staleness", "4", "--ps-log", "--join-timeout-secs", "5"});
  EXPECT_FALSE(flags.sync);
  EXPECT_EQ(flags.max_staleness, 4);
  EXPECT_TRUE(flags.ps_log);
  EXPECT_EQ(flags.join_timeout_secs, 5);
}

}  // namespace
}  // namespace muster
