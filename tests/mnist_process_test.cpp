// The mnist example as a process: killed, stopped, short of disk, laid out differently, exported.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::RunningProgram;
using ::testing::SizeIs;
using testing::TempDir;
using testing::Words;
using testing::operator+;

std::int64_t saved_step(const Path& folder) {
  const auto latest = latest_checkpoint(folder);
  return latest ? checkpoint_step(*latest).value() : -1;
}

// Waits until the checkpoint of this step or a later one is there, or the program has ended.
void wait_for_checkpoint(RunningProgram& program, const Path& folder, std::int64_t step) {
  while (!program.ended() && saved_step(folder) < step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// The bytes of all event files.
std::string events_of(const Path& job_dir) {
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(job_dir)) {
    const bool is_events = entry.path().filename().string().starts_with("events.out.");
    if (is_events) bytes += testing::read_bytes(entry.path());
  }
  return bytes;
}

class Mnist : public ::testing::Test {
 protected:
  void SetUp() override {
    tool({"records", "synth", "mnist", "--output", folder_ / "idx", "--train",
          std::to_string(20 * batch_size()), "--test", "64"});
    tool(
        {"records", "write", "mnist", "--input", folder_ / "idx", "--output", folder_ / "records"});
  }

  // 20 of them are all images.
  static std::int64_t batch_size() { return testing::are_tests_long() ? 16 : 8; }

  static std::string tool(const Words& arguments) {
    const Outcome outcome = testing::run_program(MUSTER_PROGRAM, arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }

  // Everything whose state a resume has to find again: shuffle, augmentation, dropout, Adam's
  // slots, moving averages.
  Words flags(const Path& job_dir, std::int64_t steps) const {
    return {"--train-files",
            folder_ / "records/train*.tfrecords",
            "--eval-files",
            folder_ / "records/eval*.tfrecords",
            "--test-files",
            folder_ / "records/eval*.tfrecords",
            "--job-dir",
            job_dir,
            "--train-steps",
            std::to_string(steps),
            "--train-batch-size",
            std::to_string(batch_size()),
            "--seed",
            "3",
            "--augment",
            "--ema",
            "0.9",
            "--threads-per-replica",
            "1",
            "--throttle-secs",
            "3600"};
  }

  static void run_to_the_end(const Words& arguments) {
    const Outcome outcome = testing::run_program(MNIST_PROGRAM, arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("predicted 64 images"));
  }

  static std::string hash_of(const Path& job_dir) {
    return tool({"checkpoint", "hash", job_dir}).substr(0, 64);
  }

  TempDir folder_;
};

class MnistReplicas : public Mnist, public ::testing::WithParamInterface<std::int64_t> {};

TEST_P(MnistReplicas, KilledRunsEndWithTheHashOfAnUndisturbedOne) {
  // Some epochs and a half: 20 batches are one.
  const std::int64_t replicas = GetParam();
  const bool is_long = testing::are_tests_long();
  const std::int64_t steps = replicas == 1 ? (is_long ? 50 : 26) : (is_long ? 18 : 8);
  const std::int64_t period = replicas == 1 ? 3 : 1;
  const std::int64_t kills = is_long ? 4 : 2;
  const auto arguments = [&](const Path& job_dir) {
    return flags(job_dir, steps) + Words{"--replicas", std::to_string(replicas),
                                         "--save-checkpoints-steps", std::to_string(period)};
  };
  run_to_the_end(arguments(folder_ / "whole"));

  Random random(
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  for (std::int64_t killed = 1; killed <= kills; ++killed) {
    RunningProgram program(MNIST_PROGRAM, arguments(folder_ / "killed"));
    wait_for_checkpoint(program, folder_ / "killed", steps * killed / (kills + 2));
    // Any moment will do: in a step, in the middle of a write, between two files.
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(150'000)));
    program.send(SIGKILL);
    program.wait();
  }
  run_to_the_end(arguments(folder_ / "killed"));
  EXPECT_EQ(hash_of(folder_ / "whole"), hash_of(folder_ / "killed"));
}

INSTANTIATE_TEST_SUITE_P(OneAndFour, MnistReplicas, ::testing::Values(1, 4));

TEST_F(Mnist, FourReplicasGiveOneHashWhether1Or2Or4RunAtATime) {
  std::vector<std::string> hashes;
  // Two at a time are what other tests have on two processors.
  const bool is_long = testing::are_tests_long();
  for (const auto& concurrent : is_long ? Words{"1", "4", "2"} : Words{"1", "4"}) {
    const Path job_dir = folder_ / concurrent;
    run_to_the_end(flags(job_dir, 3) +
                   Words{"--replicas", "4", "--concurrent-replicas", concurrent});
    hashes.push_back(hash_of(job_dir));
  }
  EXPECT_THAT(hashes, Each(hashes[0]));
  run_to_the_end(flags(folder_ / "one", 3) + Words{"--replicas", "1"});
  EXPECT_NE(hashes[0], hash_of(folder_ / "one"));
}

class MnistSignal : public Mnist, public ::testing::WithParamInterface<int> {};

TEST_P(MnistSignal, SavesTheLastStepAndExitsWith128PlusTheSignal) {
  const Path job_dir = folder_ / "job";
  RunningProgram program(MNIST_PROGRAM,
                         flags(job_dir, 100'000) + Words{"--save-checkpoints-steps", "7"});
  // The first checkpoint is evaluated; at the second it is training again.
  wait_for_checkpoint(program, job_dir, 14);
  program.send(GetParam());
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.status, 128 + GetParam()) << outcome.err;
  EXPECT_FALSE(outcome.killed);
  EXPECT_THAT(outcome.err,
              HasSubstr(fmt::format("stopped by signal {} after step {}, which is saved",
                                    GetParam(), saved_step(job_dir))));
}

INSTANTIATE_TEST_SUITE_P(TermAndInterrupt, MnistSignal, ::testing::Values(SIGTERM, SIGINT));

TEST_F(Mnist, ASecondSignalEndsItAtOnce) {
  const Path job_dir = folder_ / "job";
  RunningProgram program(MNIST_PROGRAM,
                         flags(job_dir, 100'000) + Words{"--save-checkpoints-steps", "100000"});
  wait_for_checkpoint(program, job_dir, 0);
  program.send(SIGTERM);
  program.send(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_THAT(outcome.status, ::testing::AnyOf(128 + SIGTERM, 128 + SIGINT)) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("which is saved")));
  EXPECT_EQ(saved_step(job_dir), 0);
}

TEST_F(Mnist, AFullDiskCostsCheckpointsButNotTheTrainingAndIsTold) {
  const Words save_often{"--save-checkpoints-steps", "4"};
  run_to_the_end(flags(folder_ / "whole", 12) + save_often);
  const Path job_dir = folder_ / "job";
  run_to_the_end(flags(job_dir, 4) + save_often);

  RunningProgram full(MNIST_PROGRAM, flags(job_dir, 12) + save_often,
                      {.most_file_bytes = std::uint64_t{4} << 20});
  const Outcome outcome = full.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("Saving checkpoints for 8"));
  EXPECT_THAT(outcome.err, HasSubstr("the checkpoint of the last step, 12, is not saved"));
  EXPECT_THAT(outcome.err, HasSubstr("File too large"));
  EXPECT_EQ(saved_step(job_dir), 4);

  run_to_the_end(flags(job_dir, 12) + save_often);
  EXPECT_EQ(hash_of(job_dir), hash_of(folder_ / "whole"));
}

TEST_F(Mnist, TheLastModelIsExportedToTheJobFolderOrToThePathGiven) {
  const Path job_dir = folder_ / "job";
  run_to_the_end(flags(job_dir, 2));
  EXPECT_THAT(graph::exports_in(job_dir / "export/mnist"), SizeIs(1));
  EXPECT_THAT(tool({"events", "show", job_dir}), ContainsRegex("graph_def +graph +1 "));
  // The table of TensorBoard's "hparams" has the program's flags.
  EXPECT_THAT(events_of(job_dir),
              AllOf(HasSubstr("train_batch_size"), HasSubstr("keep_prob"), HasSubstr("constant")));
  // Nothing is left to train.
  run_to_the_end(flags(job_dir, 2) + Words{"--export-path", folder_ / "models"});
  EXPECT_THAT(graph::exports_in(job_dir / "export/mnist"), SizeIs(1));
  ASSERT_THAT(graph::exports_in(folder_ / "models"), SizeIs(1));
  EXPECT_THAT(tool({"model", "show", "--dir", graph::latest_export(folder_ / "models"), "--all"}),
              AllOf(HasSubstr("inputs['image']"), HasSubstr("shape: (-1, 784)"),
                    HasSubstr("outputs['probabilities']")));
}

// Moving averages are what both hold.
TEST_F(Mnist, TheGraphOfTheJobFolderAndItsCheckpointMakeTheModelThatTheExporterWrote) {
  const Path job_dir = folder_ / "job";
  run_to_the_end(flags(job_dir, 2));
  const std::string joined = tool({"export", "savedmodel", "--model-dir", job_dir});
  const auto answers = [](const Path& model) {
    return tool({"model", "run", "--dir", model, "--input_exprs", "image=np.ones((2, 784))"});
  };
  const std::string expected = answers(graph::latest_export(job_dir / "export/mnist"));
  EXPECT_THAT(expected, HasSubstr("Result for output key probabilities:\n[[0."));
  EXPECT_EQ(answers(joined.substr(0, joined.find('\n'))), expected);
}

TEST_F(Mnist, WrongFlagsAreNamedAndExitWith2) {
  const Words good = flags(folder_ / "job", 1);
  const auto error_of = [&](const Words& more) {
    const Outcome outcome = testing::run_program(MNIST_PROGRAM, good + more);
    EXPECT_EQ(outcome.status, 2);
    return outcome.err;
  };
  EXPECT_THAT(error_of({"--keep-prob", "1.5"}), HasSubstr("--keep-prob"));
  EXPECT_THAT(error_of({"--schedule", "odd"}), HasSubstr("--schedule"));
  EXPECT_THAT(error_of({"--train-files", folder_ / "none*"}), HasSubstr("--train-files"));
}

}  // namespace
}  // namespace muster
