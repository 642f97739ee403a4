// The examples as clusters of processes, started by `muster launch`: the weights of one process for
// any layout, evaluations, exports, and an end for everybody.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "muster/checkpoint/checkpoint.h"
#include "muster/graph/export_folder.h"
#include "muster/testing/process.h"
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
using testing::RunningProgram;
using ::testing::SizeIs;
using testing::TempDir;
using testing::Words;
using testing::operator+;

void tool(const Words& arguments) {
  const Outcome outcome = testing::run_program(MUSTER_PROGRAM, arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
}

/// An example with data that was made up, trained with four replicas.
class Example {
 public:
  virtual ~Example() = default;

  // Flags of a run up to the example's last step, or an earlier one.
  virtual Words flags(std::int64_t steps) const = 0;
  virtual std::int64_t last_step() const = 0;
  virtual const char* program() const = 0;

  Path job_dir(const std::string& name) const { return folder_ / name; }
  Path log_dir(const std::string& name) const { return folder_ / (name + "-logs"); }
  std::string log_of(const std::string& name, const std::string& task) const {
    return read_bytes(log_dir(name) / (task + ".log"));
  }

  Words words(const std::string& name, const Words& more = {}, std::int64_t steps = 0) const {
    return flags(steps == 0 ? last_step() : steps) +
           Words{"--job-dir", job_dir(name),           "--replicas", "4", "--seed",
                 "3",         "--threads-per-replica", "1"} +
           more;
  }
  void run_alone(const std::string& name, const Words& more = {}, std::int64_t steps = 0) const {
    const Outcome outcome = testing::run_program(program(), words(name, more, steps));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  Words launch_words(const std::string& name, const Words& cluster, const Words& more = {},
                     std::int64_t steps = 0) const {
    return Words{"launch", "--log-dir", log_dir(name), "--no-training-log"} + cluster +
           Words{"--", program()} + words(name, more, steps);
  }
  // Everybody must end by itself, and well, within the ten seconds that the launcher gives.
  Outcome launch(const std::string& name, const Words& cluster, const Words& more = {},
                 std::int64_t steps = 0) const {
    Outcome outcome =
        testing::run_program(MUSTER_PROGRAM, launch_words(name, cluster, more, steps));
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    EXPECT_THAT(outcome.err, AllOf(Not(HasSubstr("asking ")), Not(HasSubstr(" failed "))))
        << outcome.out;
    return outcome;
  }

 protected:
  TempDir folder_;
};

class CensusExample : public Example {
 public:
  CensusExample() {
    tool({"records", "synth", "census", "--output", folder_.path(), "--train", "1000", "--test",
          "200"});
  }
  Words flags(std::int64_t steps) const override {
    return {"--train-files",      folder_ / "adult.data.csv",
            "--eval-files",       folder_ / "adult.test.csv",
            "--eval-batch-size",  "100",
            "--train-steps",      std::to_string(steps),
            "--train-batch-size", "10"};
  }
  std::int64_t last_step() const override { return 200; }
  const char* program() const override { return CENSUS_PROGRAM; }
};

class MnistExample : public Example {
 public:
  MnistExample() {
    tool({"records", "synth", "mnist", "--output", folder_ / "idx", "--train", "320", "--test",
          "64"});
    tool(
        {"records", "write", "mnist", "--input", folder_ / "idx", "--output", folder_ / "records"});
  }
  Words flags(std::int64_t steps) const override {
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

template <typename T>
class Layouts : public ::testing::Test {};
// Two optimizers and tables by rows; batch norm, dropout and pictures that are turned.
using Examples = ::testing::Types<CensusExample, MnistExample>;
TYPED_TEST_SUITE(Layouts, Examples);

TYPED_TEST(Layouts, AllGiveTheWeightsOfOneProcess) {
  const TypeParam example;
  example.run_alone("alone", {"--concurrent-replicas", "1"});
  const std::string alone = hash_of(example.job_dir("alone"));
  example.run_alone("towers", {"--concurrent-replicas", "4"});
  EXPECT_EQ(hash_of(example.job_dir("towers")), alone);
  struct Layout {
    std::string name;
    Words cluster;
    Words flags;
  };
  for (const Layout& layout :
       {Layout{"collective-3", {"--chief", "--workers", "3", "--ps", "0"}, {"--collective"}},
        Layout{"collective-1",
               {"--chief", "--workers", "1", "--ps", "0"},
               {"--concurrent-replicas", "2"}},
        Layout{"ps-1", {"--chief", "--workers", "1", "--ps", "1"}, {"--sync"}},
        Layout{"ps-2", {"--chief", "--workers", "2", "--ps", "2"}, {}}}) {
    example.launch(layout.name, layout.cluster, layout.flags);
    EXPECT_EQ(hash_of(example.job_dir(layout.name)), alone) << layout.name;
  }
}

TYPED_TEST(Layouts, ARunGoesOnInAnotherOne) {
  const TypeParam example;
  const std::int64_t half = example.last_step() / 2;
  example.run_alone("whole");
  const std::string whole = hash_of(example.job_dir("whole"));
  const Words servers{"--chief", "--workers", "1", "--ps", "2"};
  const Words collective{"--chief", "--workers", "2", "--ps", "0"};

  example.run_alone("spread", {}, half);
  example.launch("spread", servers);
  EXPECT_EQ(hash_of(example.job_dir("spread")), whole);

  example.launch("gathered", collective, {}, half);
  example.run_alone("gathered");
  EXPECT_EQ(hash_of(example.job_dir("gathered")), whole);
}

TEST(Cluster, KilledAsAWholeItGoesOnInAnotherLayout) {
  const CensusExample example;
  example.run_alone("whole");
  {
    RunningProgram launcher(MUSTER_PROGRAM,
                            example.launch_words("job", {"--chief", "--workers", "1", "--ps", "1"},
                                                 {"--save-checkpoints-steps", "20"}));
    for (;;) {
      const auto latest = latest_checkpoint(example.job_dir("job"));
      if (launcher.ended() || (latest && checkpoint_step(*latest).value_or(-1) >= 40)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    launcher.send(SIGKILL);  // Its tasks end with it.
    launcher.wait();
  }
  example.launch("job", {"--chief", "--workers", "2", "--ps", "0"});
  EXPECT_EQ(hash_of(example.job_dir("job")), hash_of(example.job_dir("whole")));
}

TEST(Cluster, AMasterEvaluatesAndExportsAndNobodyElseDoes) {
  const CensusExample example;
  const Outcome outcome =
      example.launch("job", {"--workers", "2", "--ps", "2"}, {"--save-checkpoints-steps", "20"});
  EXPECT_THAT(example.log_of("job", "master"),
              AllOf(HasSubstr("master:0 strategy: parameter server, synchronous: 3 tasks train, 2 "
                              "hold the variables (ps in the cluster)"),
                    HasSubstr("Saving dict for global step 200"), HasSubstr("accuracy = ")));
  for (const char* task : {"worker0", "worker1", "ps0", "ps1"}) {
    EXPECT_THAT(example.log_of("job", task),
                AllOf(Not(HasSubstr("Saving dict")), Not(HasSubstr("Saving checkpoints")),
                      Not(HasSubstr("accuracy = "))))
        << task;
  }
  EXPECT_THAT(graph::exports_in(example.job_dir("job") / "export/census"), SizeIs(1));
  for (const char* task : {"ps:0", "ps:1", "worker:0", "worker:1", "master:0"}) {
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("ended {} ", task)));
  }
}

TEST(Cluster, AnEvaluatorSeesTheLastCheckpointAndEnds) {
  const CensusExample example;
  example.launch("job", {"--evaluator", "--workers", "1", "--ps", "0"},
                 {"--save-checkpoints-steps", "20"});
  EXPECT_THAT(example.log_of("job", "chief"),
              AllOf(HasSubstr("left to a task of type evaluator"),
                    HasSubstr("no ps in the cluster"), Not(HasSubstr("Saving dict"))));
  EXPECT_THAT(example.log_of("job", "evaluator"),
              AllOf(HasSubstr("Saving dict for global step 200"),
                    HasSubstr("the evaluator ends: step 200")));
  EXPECT_THAT(graph::exports_in(example.job_dir("job") / "export/census"), SizeIs(1));
}

// Without --train-steps nobody but the chief knows where the end is.
TEST(Cluster, AnEvaluatorEndsWhenTheInputDoes) {
  const CensusExample example;
  Words words = example.words("job", {"--num-epochs", "1"});
  const auto steps = std::find(words.begin(), words.end(), "--train-steps");
  words.erase(steps, steps + 2);
  const Outcome outcome = testing::run_program(
      MUSTER_PROGRAM, Words{"launch", "--log-dir", example.log_dir("job"), "--no-training-log",
                            "--evaluator", "--workers", "2", "--ps", "1", "--", CENSUS_PROGRAM} +
                          words);
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  // 1,000 people, four replicas of ten.
  EXPECT_THAT(example.log_of("job", "evaluator"),
              HasSubstr("the evaluator ends: the run has ended at step 25"));
  // All leave together: nobody is missed, and no epoch begins for the last save.
  EXPECT_THAT(example.log_of("job", "chief"),
              AllOf(HasSubstr("epoch 1:"), Not(HasSubstr("epoch 2:"))));
}

TEST(Cluster, FlagsThatDoNotGoWithItAreRefusedAtOnce) {
  const CensusExample example;
  const Words ps{"--chief", "--workers", "1", "--ps", "1"};
  const Outcome async =
      testing::run_program(MUSTER_PROGRAM, example.launch_words("a", ps, {"--sync=false"}));
  EXPECT_EQ(async.status, 2);
  EXPECT_THAT(example.log_of("a", "chief"), HasSubstr("asynchronous updates are not there yet"));
  const Outcome collective =
      testing::run_program(MUSTER_PROGRAM, example.launch_words("b", ps, {"--collective"}));
  EXPECT_EQ(collective.status, 2);
  EXPECT_THAT(example.log_of("b", "chief"), HasSubstr("leave out the flag or the ps"));
}

}  // namespace
}  // namespace muster
