// Servers that write their own parts of the chief's checkpoints: the weights stay those of one
// process, whichever task is killed, and in whatever layout a run is resumed.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/testing/eventually.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/hash_alone.h"
#include "tests/latest_hash.h"
#include "tests/task_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Outcome;
using testing::TempDir;
using testing::Words;
using testing::operator+;

const Words kFlags{"--steps", "30", "--replicas", "3", "--save-steps", "5"};
const Words kParts{"--part-bytes", "1"};

int shards_of_latest(const Path& model_dir) {
  return BundleReader(latest_checkpoint(model_dir).value()).num_shards();
}

std::vector<std::string> left_over(const Path& folder) {
  std::vector<std::string> names;
  for (const std::string& name : file_system_for(folder).list(folder)) {
    if (name.find(".tmp-") != std::string::npos) names.push_back(name);
  }
  return names;
}

// Every checkpoint of the folder must be whole.
void expect_whole(const Path& model_dir) {
  for (const Path& prefix : list_checkpoints(model_dir)) BundleReader(prefix).verify();
  EXPECT_THAT(left_over(model_dir), IsEmpty());
}

TEST(CheckpointInParts, HasTheWeightsOfOneProcess) {
  const std::string alone = hash_alone(kFlags);
  for (const Words& more : {Words{}, Words{"--ps-log"}}) {
    TaskCluster cluster(1, 2, kFlags + kParts + more, {.shares_folder = true});
    const auto logs = cluster.wait_all();
    EXPECT_EQ(hash_of(cluster.chief_folder()), alone);
    // The first is the chief's alone: with it there is always one to go back to.
    for (const Path& prefix : list_checkpoints(cluster.chief_folder())) {
      EXPECT_EQ(BundleReader(prefix).num_shards(), checkpoint_step(prefix) == 0 ? 1 : 3)
          << prefix << "\n"
          << logs[0];
    }
    expect_whole(cluster.chief_folder());
  }
}

TEST(CheckpointInParts, IsTheChiefsAloneWhereFoldersAreNotShared) {
  TaskCluster cluster(1, 2, kFlags + kParts);
  const auto logs = cluster.wait_all();
  EXPECT_THAT(logs[0], HasSubstr("the chief writes checkpoints alone: ps:0 does not see its"));
  EXPECT_EQ(shards_of_latest(cluster.chief_folder()), 1);
  expect_whole(cluster.chief_folder());
}

TEST(CheckpointInParts, IsTheChiefsAloneWhereTheyAreSmall) {
  TaskCluster cluster(1, 2, kFlags, {.shares_folder = true});
  cluster.wait_all();
  EXPECT_EQ(shards_of_latest(cluster.chief_folder()), 1);
}

TEST(CheckpointInParts, IsResumedByOneProcessAndByOtherServers) {
  const std::string alone = hash_alone(kFlags);
  const Words slow{"--step-ms", "20"};
  for (const std::size_t servers : {0U, 1U, 3U}) {
    TaskCluster cluster(1, 2, kFlags + kParts + slow, {.shares_folder = true});
    ASSERT_TRUE(cluster.wait_for_step(10));
    for (std::size_t i = 0; i < cluster.size(); ++i) cluster.kill(i);
    for (std::size_t i = 0; i < cluster.size(); ++i) cluster.wait(i);
    EXPECT_EQ(shards_of_latest(cluster.chief_folder()), 3);
    TaskCluster next(0, servers, kFlags + kParts, {.starts = false, .shares_folder = true});
    std::filesystem::rename(cluster.chief_folder(), next.chief_folder());
    next.start_all();
    next.wait_all();
    EXPECT_EQ(hash_of(next.chief_folder()), alone) << servers;
    EXPECT_EQ(shards_of_latest(next.chief_folder()), static_cast<int>(servers) + 1);
    expect_whole(next.chief_folder());
  }
}

TEST(CheckpointInParts, WhoeverIsKilledTheRunEndsWithTheWeightsOfOneProcess) {
  const std::string alone = hash_alone(kFlags);
  const Words slow{"--step-ms", "10", "--save-steps", "1"};
  for (const std::size_t task : {0U, 1U, 2U, 3U}) {
    TaskCluster cluster(1, 2, kFlags + kParts + slow, {.shares_folder = true});
    ASSERT_TRUE(cluster.wait_for_step(4));
    // As a question to a server leaves it that the loss of a task breaks off.
    testing::write_bytes(cluster.chief_folder() / ".model.ckpt-shared.tmp-0.1", "");
    cluster.kill_and_start(task);
    ASSERT_TRUE(cluster.wait_for_step(15));
    cluster.kill_and_start(task);
    cluster.wait_for_chief_and_end_the_rest();
    EXPECT_EQ(hash_of(cluster.chief_folder()), alone) << cluster.name(task);
    expect_whole(cluster.chief_folder());
  }
}

TEST(CheckpointInParts, AServerWhoseDiskIsFullLeavesItToTheChief) {
  TaskCluster cluster(1, 2, kFlags + kParts, {.starts = false, .shares_folder = true});
  for (const std::size_t task : {0U, 1U, 2U}) cluster.start(task);
  // Enough for what it logs.
  cluster.start(3, {.most_file_bytes = 6'000});
  const auto logs = cluster.wait_all();
  EXPECT_THAT(logs[0], HasSubstr("ps:1 has not written its part"));
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(kFlags));
  EXPECT_EQ(shards_of_latest(cluster.chief_folder()), 1);
  expect_whole(cluster.chief_folder());
}

TEST(CheckpointInParts, OfTheLastStepNeedsNoServerAnyMore) {
  TaskCluster cluster(1, 2, kFlags + kParts + Words{"--save-steps", "7", "--last-save-ms", "2000"},
                      {.shares_folder = true});
  ASSERT_TRUE(testing::eventually([&] { return cluster.says(0, "the last save takes"); }));
  cluster.kill(2);
  cluster.wait(2);
  for (const std::size_t task : {0U, 1U, 3U}) {
    const Outcome outcome = cluster.wait(task);
    EXPECT_EQ(outcome.status, 0) << cluster.name(task) << "\n" << outcome.err;
  }
  EXPECT_EQ(hash_of(cluster.chief_folder()), hash_alone(kFlags));
  EXPECT_EQ(shards_of_latest(cluster.chief_folder()), 3);
  expect_whole(cluster.chief_folder());
}

}  // namespace
}  // namespace muster
