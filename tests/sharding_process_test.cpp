// Tasks that hold a part of the slots each, or of the sums of gradients too: the weights of one
// process, in checkpoints that no task wrote alone, whichever task is killed, and in whatever
// layout a run is resumed.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/data/checkpoint/checkpoint.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/hash_alone.h"
#include "tests/latest_hash.h"
#include "tests/task_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::TempDir;
using testing::Words;
using testing::operator+;

// Two optimizers, tables by rows, clipping by global norm; a kernel that is cut between tasks, and
// stands transposed in checkpoints.
const Words kWideAndDeep{"--steps",      "24", "--replicas", "4",
                         "--save-steps", "4",  "--hidden",   "4096"};
// Adam, weight decay and moving averages.
const Words kTransformer{"--on-device", "--steps", "12", "--replicas", "5", "--save-steps", "5"};
const Words kSharded{"--sharding", "optimizer"};
const Words kDivided{"--sharding", "gradients"};

int shards_of_latest(const Path& model_dir) {
  const BundleReader bundle(latest_checkpoint(model_dir).value());
  bundle.verify();
  return bundle.num_shards();
}

// The number behind these words of a log, at their last place.
std::int64_t number_after(const std::string& log, const std::string& words) {
  const auto place = log.rfind(words);
  EXPECT_NE(place, std::string::npos) << words << "\n" << log;
  return place == std::string::npos ? 0 : std::stoll(log.substr(place + words.size()));
}

/// By what is divided.
class Sharded : public ::testing::TestWithParam<std::string> {
 protected:
  static Words flags() { return {"--sharding", GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Each, Sharded, ::testing::Values("optimizer", "gradients"),
                         [](const auto& one) { return one.param; });

TEST_P(Sharded, GivesTheWeightsOfOneProcessOnFourTasks) {
  TaskCluster cluster(3, 0, kWideAndDeep + flags(), {.shares_folder = true});
  const auto logs = cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(kWideAndDeep));
  // Every task has written a part, and no task the whole.
  EXPECT_EQ(shards_of_latest(cluster.chief_folder()), 4);
  std::int64_t updated = 0;
  for (const std::string& log : logs) updated += number_after(log, "this task updates ");
  EXPECT_THAT(logs[0], HasSubstr(fmt::format(" of {} elements", updated)));
}

TEST(ShardedOptimizer, HoldsEachSlotInOneOfThreeTasks) {
  TaskCluster cluster(2, 0, kTransformer + kSharded, {.shares_folder = true});
  const auto logs = cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(kTransformer));
  // Two floats of an Adam for each scalar, and in every task the two powers of its betas.
  const std::int64_t scalars = number_after(logs[0], "training ");
  std::int64_t slots = 0, averages = 0;
  for (const std::string& log : logs) {
    const std::int64_t own = number_after(log, "slots=");
    EXPECT_LT(own, 8 * scalars);
    slots += own - 8;
    averages += number_after(log, "averages=");
  }
  EXPECT_EQ(slots, 8 * scalars);
  EXPECT_EQ(averages, 4 * scalars);
}

TEST(ShardedGradients, GiveTheWeightsOfOneProcessOnOneTwoAndEightTasks) {
  // Some of eight tasks have no replica.
  for (const std::size_t workers : {0U, 1U, 7U}) {
    TaskCluster cluster(workers, 0, kTransformer + kDivided, {.shares_folder = true});
    const auto logs = cluster.wait_all();
    EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(kTransformer)) << workers;
    if (workers == 0) continue;
    std::int64_t gradients = 0;
    for (const std::string& log : logs) gradients += number_after(log, " gradients=");
    EXPECT_THAT(logs[0], HasSubstr(fmt::format(" of {} elements", gradients / 4)));
  }
}

TEST(ShardedGradients, OfABatchThatIsNotANumberAreSkippedByAllTasks) {
  const Words skips = kWideAndDeep + Words{"--nan-at", "33"};
  TaskCluster cluster(2, 0, skips + kDivided, {.shares_folder = true});
  const auto logs = cluster.wait_all();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(skips));
}

TEST_P(Sharded, WhoeverIsKilledTheRunEndsWithTheWeightsOfOneProcess) {
  TaskCluster cluster(1, 0, kWideAndDeep + flags() + Words{"--step-ms", "10"},
                      {.shares_folder = true});
  ASSERT_TRUE(cluster.wait_for_step(4));
  cluster.kill_and_start(1);
  ASSERT_TRUE(cluster.wait_for_step(12));
  cluster.kill_and_start(0);
  cluster.wait_for_chief_and_end_the_rest();
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(kWideAndDeep));
}

TEST_P(Sharded, IsStoppedAndResumedByMoreTasksAndByOneProcess) {
  TaskCluster two(1, 0, kWideAndDeep + flags() + Words{"--step-ms", "10", "--save-steps", "1000"},
                  {.shares_folder = true});
  ASSERT_TRUE(two.wait_for_step(0));
  two.kill(0, SIGTERM);
  EXPECT_EQ(two.wait(0).status, 128 + SIGTERM);
  // The chief's last checkpoint has the other's part.
  const Outcome worker = two.wait(1);
  EXPECT_EQ(worker.status, 128 + SIGTERM) << worker.err;
  EXPECT_EQ(shards_of_latest(two.chief_folder()), 2);
  const TempDir copy;
  std::filesystem::copy(two.chief_folder(), copy.path() / "run",
                        std::filesystem::copy_options::recursive);

  // By the other sharding.
  const Words others = GetParam() == "optimizer" ? kDivided : kSharded;
  TaskCluster three(2, 0, kWideAndDeep + others, {.starts = false, .shares_folder = true});
  std::filesystem::rename(two.chief_folder(), three.chief_folder());
  three.start_all();
  three.wait_all();
  EXPECT_EQ(hash_of(three.chief_folder()), hash_alone(kWideAndDeep));

  const Outcome alone = testing::run_program(
      CLUSTER_JOB, Words{"--model-dir", (copy.path() / "run").string()} + kWideAndDeep);
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(hash_of(copy.path() / "run"), hash_alone(kWideAndDeep));
}

TEST(ShardedOptimizer, ATaskThatDoesNotSeeTheFolderIsRefusedAndTheChiefGoesOn) {
  TaskCluster cluster(1, 0, kTransformer + kSharded);
  const Outcome worker = cluster.wait(1);
  EXPECT_EQ(worker.status, 1);
  EXPECT_THAT(worker.err, HasSubstr("worker:0 does not see the chief's model_dir as "));
  EXPECT_THAT(worker.err, HasSubstr("give all tasks one folder that they share"));
  const Outcome chief = cluster.wait(0);
  EXPECT_EQ(chief.status, 0) << chief.err;
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(kTransformer));
}

TEST(ShardedOptimizer, WithServersIsRefusedBeforeTheFirstStep) {
  TaskCluster cluster(0, 1, kWideAndDeep + kSharded, {.starts = false});
  cluster.start(0);
  const Outcome chief = cluster.wait(0);
  EXPECT_EQ(chief.status, 1);
  EXPECT_THAT(chief.err, HasSubstr("RunConfig: sharding optimizer is for a collective"));
}

}  // namespace
}  // namespace muster
