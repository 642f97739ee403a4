#include "muster/orchestration/jobs/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/data/summary/event_writer.h"
#include "muster/testing/temp_dir.h"

namespace muster::jobs {
namespace {

TEST(MaxSteps, AreFoundAmongTheArguments) {
  EXPECT_EQ(max_steps_of({"--x", "1", "--train-steps", "100"}), 100);
  EXPECT_EQ(max_steps_of({"--max_steps=20"}), 20);
  EXPECT_EQ(max_steps_of({"--train-steps"}), std::nullopt);
  EXPECT_EQ(max_steps_of({"--steps-per-epoch", "5", "--train-steps", "many"}), std::nullopt);
}

TEST(Progress, IsReadFromTheEventFilesOfTheJobDir) {
  const ::muster::testing::TempDir dir;
  Job job{.job_id = "a"};
  job.local.working_directory = dir.path();
  job.local.command = {"census", "--train-steps", "300"};
  EXPECT_EQ(progress_of(job, dir / "job"), std::nullopt);
  job.training_input.job_dir = "out";
  EXPECT_EQ(progress_of(job, dir / "job"), std::nullopt);
  {
    EventWriter writer(dir / "out");
    writer.add_scalar("loss", 0.5, 100);
    writer.add_scalar("global_step/sec", 50, 100);
    writer.add_scalar("loss", 0.25, 200);
  }
  const auto progress = progress_of(job, dir / "job");
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->step, 200);
  EXPECT_EQ(progress->loss, 0.25);
  EXPECT_EQ(progress->seconds_left(), 2);
  EXPECT_EQ(to_yaml(*progress),
            "progress:\n  step: 200\n  maxSteps: 300\n  loss: 0.25\n  stepsPerSecond: 50\n"
            "  secondsLeft: 2\n");
}

TEST(Progress, IsReadFromTheLastLinesOfTheChief) {
  const ::muster::testing::TempDir dir;
  Job job{.job_id = "a"};
  job.local.attempts = 2;
  std::filesystem::create_directories(dir / "attempts/2");
  ::muster::testing::write_bytes(
      dir / "attempts/2/master.log",
      "2026-03-01T10:00:00.100 I master:0 loss = 24.5, step = 101 (1.029 sec)\n"
      "2026-03-01T10:00:00.100 I master:0 global_step/sec: 97.5\n"
      "2026-03-01T10:00:00.200 I master:0 Saving checkpoints for 150 into out/model.ckpt.\n"
      "loss = 42.9\n");
  EXPECT_EQ(progress_of(job, dir.path()),
            (Progress{.step = 150, .loss = 24.5, .loss_step = 101, .steps_per_second = 97.5}));
}

TEST(Progress, TellsTheTimeLeftWithEvaluations) {
  const ::muster::testing::TempDir dir;
  Job job{.job_id = "a"};
  job.local.attempts = 1;
  job.local.command = {"census", "--train-steps", "600"};
  std::filesystem::create_directories(dir / "attempts/1");
  // 100 steps a second, and four seconds for an evaluation after every second one of these lines.
  ::muster::testing::write_bytes(
      dir / "attempts/1/master.log",
      "2026-03-01T10:00:00.000 I master:0 loss = 24.5, step = 100 (1 sec)\n"
      "2026-03-01T10:00:01.000 I master:0 loss = 23.5, step = 200 (1 sec)\n"
      "2026-03-01T10:00:01.000 I master:0 global_step/sec: 100\n"
      "2026-03-01T10:00:06.000 I master:0 loss = 22.5, step = 300 (5 sec)\n"
      "2026-03-01T10:00:07.000 I master:0 loss = 21.5, step = 400 (1 sec)\n"
      "2026-03-01T10:00:07.000 I master:0 global_step/sec: 100\n");
  // 200 steps of 7/300 s each, and the evaluation at the end.
  EXPECT_NEAR(*progress_of(job, dir.path())->seconds_left(), 200 * 7 / 300.0 + 4, 1e-9);
}

TEST(Progress, IsNotWhatAStudyWritesOfItsColumns) {
  const ::muster::testing::TempDir dir;
  Job job{.job_id = "a"};
  job.local.working_directory = dir.path();
  job.training_input.job_dir = "out";
  EventWriter(dir / "out").add_text("note", "columns", 0);
  EXPECT_EQ(progress_of(job, dir / "job"), std::nullopt);
}

TEST(Progress, HasTheLossOfTheLastStepAndTheStepOfAnEarlierOne) {
  std::optional<Progress> progress;
  take_line("2026-03-01T10:00:00.100 I loss = 2.5, step = 1", progress);
  take_line("2026-03-01T10:00:00.200 I Saving checkpoints for 50 into out/model.ckpt.", progress);
  EXPECT_EQ(progress->loss_text(), "2.5 at step 1");
  EXPECT_EQ(to_yaml(*progress), "progress:\n  step: 50\n  loss: 2.5\n  lossStep: 1\n");
  take_line("2026-03-01T10:00:00.300 I Loss for final step: 0.25.", progress);
  EXPECT_EQ(progress->loss_text(), "0.25");
  EXPECT_EQ(to_yaml(*progress), "progress:\n  step: 50\n  loss: 0.25\n");
}

TEST(Progress, WithoutARateOrAnEndHasNoTimeLeft) {
  EXPECT_EQ(Progress{.step = 1}.seconds_left(), std::nullopt);
  EXPECT_EQ((Progress{.step = 1, .max_steps = 2}.seconds_left()), std::nullopt);
}

}  // namespace
}  // namespace muster::jobs
