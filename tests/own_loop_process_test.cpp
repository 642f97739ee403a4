// A training loop written by hand as one process and as the tasks of a cluster: the same weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>

#include "muster/data/checkpoint/checkpoint.h"
#include "muster/testing/process.h"
#include "muster/testing/stand_in.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/latest_hash.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::RunningProgram;
using testing::TempDir;
using testing::warm_stand_in;
using testing::Words;
using testing::operator+;

Words flags(const Path& job_dir) {
  return {"--job-dir", job_dir, "--steps", "60", "--replicas", "3", "--save-checkpoints-steps",
          "5"};
}

std::string hash_alone(const Path& job_dir) {
  const Outcome outcome = testing::run_program(OWN_LOOP_PROGRAM, flags(job_dir));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return hash_of(job_dir);
}

Words launch_words(const Path& program, const Path& job_dir, const Words& cluster) {
  return Words{"launch", "--log-dir", job_dir.string() + "-logs", "--no-training-log", "--chief"} +
         cluster + Words{"--", program} + flags(job_dir);
}

std::string hash_in_cluster(const Path& job_dir, const Words& cluster) {
  const Outcome outcome = testing::run_program(
      MUSTER_PROGRAM, launch_words(warm_stand_in(OWN_LOOP_PROGRAM), job_dir, cluster));
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  return hash_of(job_dir);
}

TEST(OwnLoop, ThreeProcessesHaveTheWeightsOfOne) {
  const TempDir folder;
  const std::string alone = hash_alone(folder / "alone");
  EXPECT_EQ(hash_in_cluster(folder / "collective", {"--workers", "2", "--ps", "0"}), alone);
  EXPECT_EQ(hash_in_cluster(folder / "servers", {"--workers", "1", "--ps", "1"}), alone);
}

TEST(OwnLoop, KilledItGoesOnInAnotherLayout) {
  const TempDir folder;
  const Path job = folder / "job";
  {
    RunningProgram launcher(MUSTER_PROGRAM,
                            launch_words(OWN_LOOP_PROGRAM, job, {"--workers", "1", "--ps", "1"}));
    for (;;) {
      const auto latest = latest_checkpoint(job);
      if (launcher.ended() || (latest && checkpoint_step(*latest).value_or(-1) >= 10)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    launcher.send(SIGKILL);  // Its tasks end with it.
    launcher.wait();
  }
  EXPECT_EQ(hash_in_cluster(job, {"--workers", "2", "--ps", "0"}), hash_alone(folder / "alone"));
}

TEST(OwnLoop, TheLastWorkerEvaluatesAndEndsWithTheRun) {
  const TempDir folder;
  const Path job = folder / "job";
  Words words = launch_words(warm_stand_in(OWN_LOOP_PROGRAM), job, {"--workers", "2", "--ps", "1"});
  words.emplace_back("--last-worker-evaluates");
  const Outcome outcome = testing::run_program(MUSTER_PROGRAM, words);
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  EXPECT_THAT(testing::read_bytes(folder / "job-logs/worker1.log"),
              AllOf(HasSubstr("model.ckpt-60 accuracy 0."), HasSubstr("the evaluator ends")));
  EXPECT_EQ(hash_of(job), hash_alone(folder / "alone"));
}

TEST(OwnLoop, StepsComposedByHandAreSavedAndResumed) {
  const TempDir folder;
  const auto run_to = [&](const char* steps) {
    const Outcome outcome = testing::run_program(
        OWN_LOOP_PROGRAM, Words{"--by-hand", "--job-dir", folder / "job", "--steps", steps,
                                "--save-checkpoints-steps", "150"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(run_to("150"), "");
  EXPECT_THAT(run_to("400"), AllOf(HasSubstr("step 200 loss "), HasSubstr("step 400 loss ")));
  EXPECT_EQ(latest_checkpoint(folder / "job")->filename(), "model.ckpt-400");
  EXPECT_EQ(run_to("400"), "");
}

TEST(OwnLoop, OnlyTheChiefReports) {
  const TempDir folder;
  const Path job = folder / "job";
  const Outcome outcome = testing::run_program(
      MUSTER_PROGRAM, Words{"launch", "--log-dir", folder / "logs", "--no-training-log", "--chief",
                            "--workers", "1", "--ps", "0", "--", warm_stand_in(OWN_LOOP_PROGRAM),
                            "--job-dir", job, "--steps", "200"});
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  EXPECT_THAT(testing::read_bytes(folder / "logs/chief.log"), HasSubstr("step 200 loss "));
  EXPECT_THAT(testing::read_bytes(folder / "logs/worker0.log"),
              ::testing::Not(HasSubstr("step 200 loss ")));
}

}  // namespace
}  // namespace muster
