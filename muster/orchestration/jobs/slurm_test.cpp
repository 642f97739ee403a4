#include "muster/orchestration/jobs/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/job_text.h"

namespace muster::jobs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Submission slurm_submission() {
  Submission submission;
  submission.job.job_id = "census_1";
  submission.job.back_end = "slurm";
  keep(submission.job, SlurmRun{.options = {"--partition=gpu"}});
  submission.job.local.command = {"/usr/bin/census", "it's", "a b"};
  submission.job.local.working_directory = "/work dir";
  submission.roles = {{"master", 1, {0.5, 1, 1}}, {"worker", 2, {3.5, 2, 0}}, {"ps", 1, {1, 8, 0}}};
  return submission;
}

TEST(Slurm, StatesBecomeThoseOfAJob) {
  EXPECT_EQ(state_of_slurm("PENDING"), State::kQueued);
  EXPECT_EQ(state_of_slurm("REQUEUE_HOLD"), State::kQueued);
  EXPECT_EQ(state_of_slurm("CONFIGURING"), State::kPreparing);
  EXPECT_EQ(state_of_slurm("RUNNING"), State::kRunning);
  EXPECT_EQ(state_of_slurm("COMPLETING"), State::kRunning);
  EXPECT_EQ(state_of_slurm("COMPLETED"), State::kSucceeded);
  EXPECT_EQ(state_of_slurm("TIMEOUT"), State::kFailed);
  EXPECT_EQ(state_of_slurm("CANCELLED"), State::kCancelled);
  EXPECT_EQ(state_of_slurm("CANCELLED by 1000"), State::kCancelled);
  EXPECT_EQ(state_of_slurm("PARKED"), std::nullopt);
}

TEST(Slurm, IsAskedForTheMostThatAnyRoleNeeds) {
  const SlurmRequest request = slurm_request(slurm_submission().roles);
  EXPECT_EQ(request.tasks, 4);
  EXPECT_EQ(request.cpus_per_task, 4);
  EXPECT_EQ(request.memory_mb_per_cpu, 2048);
  EXPECT_EQ(request.gpus_per_task, 1);
}

TEST(Slurm, ScriptsHoldTheJobAndQuoteItsWords) {
  Submission submission = slurm_submission();
  submission.job.training_input.max_running_time = std::chrono::seconds(7201);
  const std::string batch = slurm_batch_script(submission, "/jobs/it's/census_1");
  EXPECT_THAT(
      batch,
      AllOf(HasSubstr("#SBATCH --job-name=census_1\n"), HasSubstr("#SBATCH --ntasks=4\n"),
            HasSubstr("#SBATCH --time=121\n"), HasSubstr("#SBATCH --signal=B:USR1@72\n"),
            HasSubstr("#SBATCH --partition=gpu\n"), HasSubstr("\njob='/jobs/it'\\''s/census_1'\n"),
            HasSubstr("\nwork='/work dir'\n")));
  const std::string task = slurm_task_script(submission, "/jobs/census_1");
  EXPECT_THAT(task, AllOf(HasSubstr("\nprogram=('/usr/bin/census' 'it'\\''s' 'a b')\n"),
                          HasSubstr("\ntasks=(master:0 worker:0 worker:1 ps:0)\n"),
                          HasSubstr("\nfiles=(master worker0 worker1 ps)\n")));
}

TEST(Slurm, IsAskedForATaskForEachTrialOfAStudyAtTheSameTime) {
  Submission submission = slurm_submission();
  submission.roles = {{"master", 1, {2, 4, 1}}};
  submission.parallel_trials = 5;
  EXPECT_THAT(slurm_batch_script(submission, "/jobs/a"),
              AllOf(HasSubstr("#SBATCH --ntasks=5\n#SBATCH --cpus-per-task=2\n"),
                    HasSubstr("#SBATCH --gpus-per-task=1\n"), HasSubstr("\ntasks=1\n"),
                    HasSubstr("\nplacement='--overlap --nodes=1'\n")));
}

TEST(Slurm, IsToldOfATimeLimitAtMostHalfOfItAhead) {
  Submission submission = slurm_submission();
  submission.job.training_input.max_running_time = std::chrono::seconds(30);
  EXPECT_THAT(slurm_batch_script(submission, "/jobs/a"),
              AllOf(HasSubstr("--time=1\n"), HasSubstr("--signal=B:USR1@30\n")));
  submission.job.training_input.max_running_time.reset();
  EXPECT_THAT(slurm_batch_script(submission, "/jobs/a"),
              AllOf(Not(HasSubstr("--time")), HasSubstr("--signal=B:USR1@72\n")));
}

TEST(Slurm, OptionsThatAreNoOptionsAreRefused) {
  for (const char* option : {"", "gpu", "--comment=a\n#SBATCH --uid=0"}) {
    Submission submission = slurm_submission();
    keep(submission.job, SlurmRun{.options = {option}});
    EXPECT_THROW(slurm_batch_script(submission, "/jobs/a"), InvalidArgument) << option;
  }
}

TEST(Slurm, ABlockOfAnotherProgramIsDamage) {
  Job job = slurm_submission().job;
  for (const char* block : {"{}", "[]", R"({"jobId": 12})"}) {
    job.block = block;
    EXPECT_THROW(slurm_run(job), DataLoss) << block;
  }
}

TEST(Slurm, WhatItKnowsOfAJobIsKept) {
  Job job = slurm_submission().job;
  SlurmRun run = slurm_run(job);
  run.id = "12";
  run.reason = "Priority";
  keep(job, run);
  EXPECT_EQ(job_from_json(to_json(job)), job);
  EXPECT_EQ(slurm_run(job), run);
  EXPECT_EQ(run.options, std::vector<std::string>{"--partition=gpu"});
}

}  // namespace
}  // namespace muster::jobs
