#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "muster/testing/process.h"
#include "muster/testing/stand_in.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {

using testing::operator+;

/// An example with data that was made up, as one process or as a cluster that `muster launch`
/// starts. Its jobs have names.
class ExampleJob {
 public:
  virtual ~ExampleJob() = default;

  // Flags of a run up to this step.
  virtual testing::Words flags(std::int64_t steps) const = 0;
  virtual std::int64_t last_step() const = 0;
  virtual const char* program() const = 0;

  Path job_dir(const std::string& name) const { return folder_ / name; }
  Path log_dir(const std::string& name) const { return folder_ / (name + "-logs"); }
  std::string log_of(const std::string& name, const std::string& task) const {
    return testing::read_bytes(log_dir(name) / (task + ".log"));
  }

  testing::Words words(const std::string& name, const testing::Words& more = {},
                       std::int64_t steps = 0) const {
    return flags(steps == 0 ? last_step() : steps) + testing::Words{"--job-dir",
                                                                    job_dir(name),
                                                                    "--replicas",
                                                                    std::to_string(replicas_),
                                                                    "--seed",
                                                                    "3",
                                                                    "--threads-per-replica",
                                                                    "1"} +
           more;
  }
  void run_alone(const std::string& name, const testing::Words& more = {},
                 std::int64_t steps = 0) const {
    const auto outcome = testing::run_program(program(), words(name, more, steps));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  // Its tasks are forks of a program that is loaded.
  testing::Words launch_words(const std::string& name, const testing::Words& cluster,
                              const testing::Words& more = {}, std::int64_t steps = 0) const {
    return launch_words_of(testing::warm_stand_in(program()), name, cluster, more, steps);
  }
  testing::Words launch_words_of(const Path& program, const std::string& name,
                                 const testing::Words& cluster, const testing::Words& more,
                                 std::int64_t steps) const {
    return testing::Words{"launch", "--log-dir", log_dir(name), "--no-training-log"} + cluster +
           testing::Words{"--", program} + words(name, more, steps);
  }
  // Everybody must end by itself, and well, within the ten seconds that the launcher gives.
  testing::Outcome launch(const std::string& name, const testing::Words& cluster,
                          const testing::Words& more = {}, std::int64_t steps = 0) const {
    testing::Outcome outcome =
        testing::run_program(MUSTER_PROGRAM, launch_words(name, cluster, more, steps));
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    EXPECT_THAT(outcome.err, ::testing::AllOf(::testing::Not(::testing::HasSubstr("asking ")),
                                              ::testing::Not(::testing::HasSubstr(" failed "))))
        << outcome.out;
    return outcome;
  }

 protected:
  explicit ExampleJob(std::int64_t replicas) : replicas_(replicas) {}
  static void tool(const testing::Words& arguments) {
    const auto outcome = testing::run_program(MUSTER_PROGRAM, arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }

  testing::TempDir folder_;

 private:
  std::int64_t replicas_;
};

/// Two optimizers and tables by rows.
class CensusJob : public ExampleJob {
 public:
  explicit CensusJob(std::int64_t replicas = 4) : ExampleJob(replicas) {
    tool({"records", "synth", "census", "--output", folder_.path(), "--train", "1000", "--test",
          "200"});
  }
  testing::Words flags(std::int64_t steps) const override {
    return {"--train-files",      folder_ / "adult.data.csv",
            "--eval-files",       folder_ / "adult.test.csv",
            "--eval-batch-size",  "100",
            "--train-steps",      std::to_string(steps),
            "--train-batch-size", "10"};
  }
  std::int64_t last_step() const override { return 100; }
  const char* program() const override { return CENSUS_PROGRAM; }
};

/// Batch norm, dropout and pictures that are turned.
class MnistJob : public ExampleJob {
 public:
  explicit MnistJob(std::int64_t replicas = 4) : ExampleJob(replicas) {
    tool({"records", "synth", "mnist", "--output", folder_ / "idx", "--train", "320", "--test",
          "64"});
    tool(
        {"records", "write", "mnist", "--input", folder_ / "idx", "--output", folder_ / "records"});
  }
  testing::Words flags(std::int64_t steps) const override {
    const Path records = folder_ / "records";
    return {"--train-files",      records / "train*.tfrecords",
            "--eval-files",       records / "eval*.tfrecords",
            "--test-files",       records / "eval*.tfrecords",
            "--train-steps",      std::to_string(steps),
            "--train-batch-size", "8",
            "--augment"};
  }
  std::int64_t last_step() const override { return 8; }
  const char* program() const override { return MNIST_PROGRAM; }
};

}  // namespace muster
