#include "muster/train/engine/run_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/flags/flags.h"
#include "muster/platform/cluster/tf_config.h"
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

TEST(ClusterFlags, BecomeTheClusterOfARun) {
  const ClusterConfig config = cluster_config(
      {.sync = false, .strategy = "ps", .max_staleness = 4, .ps_log = true, .join_timeout_secs = 5},
      worker_with_ps());
  EXPECT_EQ(config.task.task.name(), "worker:0");
  EXPECT_EQ(config.train_distribute.name(), "ps");
  EXPECT_FALSE(config.sync);
  EXPECT_EQ(config.max_staleness, 4);
  EXPECT_TRUE(config.ps_log);
  EXPECT_EQ(config.join_timeout, std::chrono::seconds(5));
  EXPECT_THROW(cluster_config({.ps_log = true}, {}), UsageError);
}

TEST(RunFlags, BecomeARunConfig) {
  RunFlags flags;
  FlagSet set("Trains.");
  add_run_flags(set, flags);
  EXPECT_THROW(set.parse(std::vector<std::string>{"--seed", "3"}), UsageError);
  set.parse({"--job-dir", "runs/a", "--seed", "3", "--replicas", "4", "--threads-per-replica", "2",
             "--concurrent-replicas", "1", "--join-timeout-secs", "7"});
  const RunConfig config = run_config(flags);
  EXPECT_EQ(config.model_dir, "runs/a");
  EXPECT_EQ(config.reproducibility.tf_random_seed, 3U);
  EXPECT_EQ(config.reproducibility.replicas, 4);
  EXPECT_EQ(config.reproducibility.threads_per_replica, 2);
  EXPECT_EQ(config.devices.concurrent_replicas, 1);
  EXPECT_EQ(config.cluster.join_timeout, std::chrono::seconds(7));
}

TEST(RunFlags, SayWhereItRunsHowPreciselyAndHowOftenItIsSaved) {
  RunFlags flags;
  FlagSet set("Trains.");
  add_run_flags(set, flags);
  set.parse({"--job-dir", "runs/a", "--devices", "cpu,cpu", "--precision", "bfloat16",
             "--save-checkpoints-secs", "30", "--keep-checkpoint-max", "2", "--save-summary-steps",
             "7", "--log-step-count-steps", "0"});
  const RunConfig config = run_config(flags);
  EXPECT_EQ(config.devices.names, (std::vector<std::string>{"cpu", "cpu"}));
  EXPECT_EQ(config.reproducibility.precision, ComputeType::kBfloat16);
  EXPECT_EQ(config.checkpoints.save_checkpoints_secs, std::chrono::seconds(30));
  EXPECT_EQ(config.checkpoints.keep_checkpoint_max, 2);
  EXPECT_EQ(config.save_summary_steps, 7);
  EXPECT_EQ(config.log_step_count_steps, 0);
  EXPECT_FALSE(set.hparams().contains("save_summary_steps"));
  flags.save_checkpoints_steps = 5;
  EXPECT_THROW(run_config(flags), UsageError);
}

TEST(RunFlags, SayWhatTasksHoldAPartOf) {
  EXPECT_EQ(run_config({.job_dir = "a"}).sharding, Sharding::kOff);
  EXPECT_EQ(run_config({.job_dir = "a", .sharding = "optimizer"}).sharding, Sharding::kOptimizer);
  EXPECT_EQ(run_config({.job_dir = "a", .sharding = "gradients"}).sharding, Sharding::kGradients);
  EXPECT_THROW(run_config({.job_dir = "a", .sharding = "slots"}), UsageError);
  EXPECT_EQ(run_config({.job_dir = "a", .recompute = "layers.*"}).recompute, "layers.*");
}

TEST(RunFlags, ThatWereNotGivenAreTheDefaultsOfARunConfig) {
  EXPECT_EQ(run_config({.job_dir = "a"}).to_string(),
            RunConfig({.model_dir = "a", .reproducibility = {.tf_random_seed = 0}}).to_string());
}

TEST(RunFlags, AreReplacedByTheProgramsOwn) {
  RunFlags flags;
  std::string own = "best";
  std::int64_t steps = 0;
  FlagSet set("Trains.");
  set.add("--precision", &own);
  add_run_flags(set, flags);
  set.add("--save-checkpoints-steps", &steps).not_negative();
  set.parse({"--job-dir", "runs/a", "--precision", "high", "--save-checkpoints-steps", "0"});
  EXPECT_EQ(own, "high");
  EXPECT_EQ(run_config(flags).checkpoints.save_checkpoints_steps, std::nullopt);
  EXPECT_THROW(set.add("--seed", &steps), InvalidArgument);
}

TEST(RunConfig, KnowsHowManyBatchesAStepHas) {
  RunConfig config;
  EXPECT_EQ(config.batches_per_step(), 1);
  config.cluster.task = worker_with_ps();
  EXPECT_EQ(config.batches_per_step(), 2);
  config.devices.names = {"cpu", "cpu"};
  EXPECT_EQ(config.batches_per_step(), 4);
  config.reproducibility.replicas = 3;
  EXPECT_EQ(config.batches_per_step(), 3);
  config.cluster.sync = false;
  EXPECT_EQ(config.batches_per_step(), 1.5);
}

}  // namespace
}  // namespace muster
