// One program with learn_runner as every task of a cluster: each does what its type asks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/testing/process.h"
#include "muster/testing/stand_in.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/latest_hash.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::read_bytes;
using testing::TempDir;
using testing::Words;
using testing::operator+;

std::string hash_alone(const Path& model_dir) {
  const Outcome outcome =
      testing::run_program(EXPERIMENT_JOB, {"--model-dir", model_dir, "--schedule", "train"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("schedule: train (as asked for)"));
  return hash_of(model_dir);
}

void launch(const Path& folder, const Words& cluster) {
  const Outcome outcome = testing::run_program(
      MUSTER_PROGRAM,
      Words{"launch", "--log-dir", folder / "logs", "--no-training-log"} + cluster +
          Words{"--", testing::warm_stand_in(EXPERIMENT_JOB), "--model-dir", folder / "job"});
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
}

TEST(LearnRunner, RunsEveryTaskByItsTypeWithTheWeightsOfOneProcess) {
  const TempDir folder;
  launch(folder.path(), {"--workers", "1", "--ps", "1"});
  const auto log_of = [&](const std::string& task) {
    return read_bytes(folder / ("logs/" + task + ".log"));
  };
  EXPECT_THAT(log_of("master"), AllOf(HasSubstr("schedule: train_and_evaluate (of master:0)"),
                                      HasSubstr("Saving dict for global step 40")));
  EXPECT_THAT(log_of("worker0"),
              AllOf(HasSubstr("schedule: train (of worker:0)"), Not(HasSubstr("Saving dict"))));
  EXPECT_THAT(log_of("ps"), HasSubstr("schedule: run_std_server (of ps:0)"));
  EXPECT_EQ(hash_of(folder / "job"), hash_alone(folder / "alone"));
}

TEST(LearnRunner, AnEvaluatorFollowsTheRunAndEndsWithIt) {
  const TempDir folder;
  launch(folder.path(), {"--evaluator", "--workers", "1", "--ps", "0"});
  EXPECT_THAT(
      read_bytes(folder / "logs/evaluator.log"),
      AllOf(HasSubstr("schedule: continuous_eval (of evaluator:0)"),
            HasSubstr("Saving dict for global step 40"), HasSubstr("the evaluator ends: step 40")));
  EXPECT_THAT(
      read_bytes(folder / "logs/chief.log"),
      AllOf(HasSubstr("schedule: train (of chief:0)"), Not(HasSubstr("Saving dict for global"))));
  EXPECT_TRUE(std::filesystem::exists(folder / "job/eval_continuous/metrics.jsonl"));
}

}  // namespace
}  // namespace muster
