// The language model of examples/: records, training that is killed and resumed, sampling, sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "muster/data/checkpoint/checkpoint.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/latest_hash.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::RunningProgram;
using ::testing::StartsWith;
using testing::TempDir;
using testing::Words;

std::string output_of(const Words& words) {
  const Outcome outcome = testing::run_program(LANGUAGE_MODEL_PROGRAM, words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return outcome.out;
}

/// Records of 21 rows of 8 tokens; the last one is full with the end of the second document.
std::string write_records(const TempDir& folder) {
  std::ofstream(folder / "a.txt") << std::string(100, 'a');
  std::ofstream(folder / "b.txt") << "abcdefg" << std::string(60, 'b');
  return output_of({"records", "--text", folder / "a.txt", folder / "b.txt", "--output",
                    folder / "records", "--length", "8"});
}

Words training(const TempDir& folder, const std::string& job) {
  return {"train",
          "--records",
          folder / "records",
          "--job-dir",
          folder / job,
          "--length",
          "8",
          "--hidden",
          "8",
          "--layers",
          "1",
          "--heads",
          "2",
          "--mlp-units",
          "8",
          "--train-steps",
          "20",
          "--train-batch-size",
          "3",
          "--warm-up-steps",
          "4",
          "--save-checkpoints-steps",
          "4"};
}

TEST(LanguageModel, TrainsSamplesAndGoesOnAfterAKillWithTheSameWeights) {
  const TempDir folder;
  // 100 + 67 bytes and two ends are 169 tokens; rows overlap in one token.
  EXPECT_THAT(write_records(folder), HasSubstr("2 documents, 19 rows to train on, 2 to evaluate"));
  EXPECT_THAT(output_of(training(folder, "alone")),
              AllOf(HasSubstr("perplexity = "), HasSubstr("global_step = 20")));
  {
    RunningProgram program(LANGUAGE_MODEL_PROGRAM, training(folder, "killed"));
    for (;;) {
      const auto latest = latest_checkpoint(folder / "killed");
      if (program.ended() || (latest && checkpoint_step(*latest).value_or(-1) >= 4)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    program.send(SIGKILL);
    program.wait();
  }
  output_of(training(folder, "killed"));
  EXPECT_EQ(hash_of(folder / "killed"), hash_of(folder / "alone"));

  const auto sampled = [&](const std::string& job) {
    return output_of(
        {"sample", "--job-dir", folder / job, "--prompt", "ab", "--tokens", "30", "--seed", "4"});
  };
  EXPECT_THAT(sampled("alone"), StartsWith("ab"));
  EXPECT_EQ(sampled("alone"), sampled("killed"));
}

TEST(LanguageModel, CountsBillionsOfParametersWithoutMemory) {
  const std::string counts = output_of(
      {"size", "--hidden", "4096", "--layers", "32", "--heads", "32", "--mlp-units", "11008"});
  // Llama 2's 6,738,415,616, less two tables of 32,000 tokens and with one of 257.
  EXPECT_THAT(counts, AllOf(HasSubstr("6477324288"), HasSubstr("float32 values 24709.0 MiB")));
  EXPECT_THAT(testing::run_program(LANGUAGE_MODEL_PROGRAM, {"tran"}).err,
              HasSubstr("records, train, sample or size"));
}

}  // namespace
}  // namespace muster
