// The cifar10 example as a process and as a cluster: its words, its resume, its layouts, its
// export.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>

#include "muster/base/random.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/testing/process.h"
#include "muster/testing/words.h"
#include "tests/example_job.h"
#include "tests/latest_hash.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::RunningProgram;
using ::testing::SizeIs;
using testing::Words;

/// A network of 8 layers on 160 images that were made up. Each replica has 8 of them a step.
class Cifar10Job : public ExampleJob {
 public:
  explicit Cifar10Job(std::int64_t replicas) : ExampleJob(replicas) {
    tool({"records", "synth", "cifar10", "--output", folder_ / "binary", "--train", "200", "--test",
          "40"});
    tool({"records", "write", "cifar10", "--input", folder_ / "binary", "--output",
          folder_ / "records"});
  }
  Words flags(std::int64_t steps) const override {
    return {"--data-dir", folder_ / "records", "--num-layers",       "8", "--eval-batch-size",
            "20",         "--train-steps",     std::to_string(steps)};
  }
  std::int64_t last_step() const override { return 12; }
  const char* program() const override { return CIFAR10_PROGRAM; }
  Path records(const std::string& name) const { return folder_ / "records" / name; }

  Outcome run(const std::string& name, const Words& more) const {
    const Outcome outcome = testing::run_program(program(), words(name, more));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome;
  }
};

// The batch of a process is split over its replicas.
const Words kBatchOfOne{"--num-gpus", "0", "--train-batch-size", "8"};
const Words kBatchOfTwo{"--num-gpus", "0", "--train-batch-size", "16"};
const Words kTwoTowers{"--devices", "cpu,cpu", "--train-batch-size", "16"};

TEST(Cifar10, TrainsThenEvaluatesAndSaysWhatTheSeedsSay) {
  const Cifar10Job example(1);
  const Outcome outcome = example.run("job", kBatchOfOne + Words{"--save-summary-steps", "5"});
  EXPECT_THAT(outcome.out,
              ContainsRegex("^Starting to train\\.\\.\\.\nStarting to evaluate\\.\\.\\."
                            "\n\\{'accuracy': .*'global_step': 12, 'loss': .*\\}\n$"));
  EXPECT_THAT(
      outcome.err,
      AllOf(HasSubstr("160 training images, 40 to evaluate"),
            HasSubstr("Using config: {'_model_dir': "),
            HasSubstr("image after unit resnet/tower_0/stage_1/residual_v1/: (?, 32, 16, 16)"),
            HasSubstr("75355 trainable scalars in 23 variables"),
            ContainsRegex("loss = [0-9.]+, learning_rate = 0\\.1"),
            ContainsRegex("Average examples/sec: [0-9.e+]+ \\([0-9.e+]+\\), step = 10"),
            HasSubstr("Evaluation [2/2]"), HasSubstr("Saving dict for global step 12: accuracy")));
  EXPECT_THAT(graph::exports_in(example.job_dir("job") / "export/cifar10"), SizeIs(1));
  const Outcome events =
      testing::run_program(MUSTER_PROGRAM, {"events", "show", example.job_dir("job")});
  EXPECT_THAT(events.out, AllOf(HasSubstr("images/image"), HasSubstr("learning_rate"),
                                HasSubstr("_hparams_/session_start_info")));
  const Path curve = example.job_dir("curve.png");
  const Outcome drawn = testing::run_program(
      "/usr/bin/python3", {SCRIPTS_DIR "/plot-training", "--muster", MUSTER_PROGRAM, "--model-dir",
                           example.job_dir("job"), "--output", curve, "--title", "12 steps"});
  EXPECT_THAT(drawn.out, HasSubstr("3 losses, 1 evaluations")) << drawn.err;
  EXPECT_EQ(testing::read_bytes(curve).substr(0, 8), "\x89PNG\r\n\x1a\n");
}

TEST(Cifar10, AnExperimentEvaluatesOnTheWayWithTheWeightsOfAPlainRun) {
  const Cifar10Job example(1);
  example.run("plain", kBatchOfOne);
  const Outcome outcome =
      example.run("experiment", kBatchOfOne + Words{"--run_experiment=True", "--eval-every", "6"});
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("Saving dict for global step 6:"),
                                 HasSubstr("Saving dict for global step 12:")));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("{'accuracy': "), Not(HasSubstr("Starting"))));
  EXPECT_EQ(hash_of(example.job_dir("plain")), hash_of(example.job_dir("experiment")));
}

// The input is at the same image, and its window has the same images, in the middle of an epoch.
TEST(Cifar10, KilledRunsEndWithTheHashOfAnUndisturbedOne) {
  const Cifar10Job example(2);
  const Words often = kBatchOfTwo + Words{"--save-checkpoints-steps", "1"};
  example.run("whole", often);
  Random random(
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  const Path job_dir = example.job_dir("killed");
  for (const std::int64_t step : {3, 8}) {
    RunningProgram program(CIFAR10_PROGRAM, example.words("killed", often));
    const auto saved = [&] {
      const auto latest = latest_checkpoint(job_dir);
      return latest ? checkpoint_step(*latest).value() : -1;
    };
    while (!program.ended() && saved() < step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(100'000)));
    program.send(SIGKILL);
    program.wait();
  }
  example.run("killed", often);
  EXPECT_EQ(hash_of(example.job_dir("whole")), hash_of(job_dir));
}

TEST(Cifar10, TowersEndWithTheHashOfReplicasThatTakeTurns) {
  const Cifar10Job example(2);
  example.run("turns", kBatchOfTwo + Words{"--num-inter-threads", "1"});
  const Outcome outcome = example.run("towers", kTwoTowers + Words{"--log-device-placement"});
  EXPECT_THAT(outcome.err, HasSubstr("tower_1: cpu"));
  EXPECT_EQ(hash_of(example.job_dir("turns")), hash_of(example.job_dir("towers")));
  example.run("cpu", kTwoTowers + Words{"--is_cpu_ps", "True"});
  EXPECT_EQ(hash_of(example.job_dir("turns")), hash_of(example.job_dir("cpu")));
}

TEST(Cifar10, AClusterEndsWithTheHashOfOneProcess) {
  const Cifar10Job example(2);
  example.run("alone", kBatchOfTwo);
  example.launch("ps", {"--workers", "1", "--ps", "1"}, kBatchOfOne + Words{"--num_workers", "2"});
  EXPECT_THAT(
      example.log_of("ps", "master"),
      AllOf(HasSubstr("16 images a step: 2 replicas of 8 each"), HasSubstr("'_num_ps_replicas': 1"),
            HasSubstr("Started server with target: grpc://localhost:"),
            HasSubstr("SyncReplicasV2: replicas_to_aggregate=2; total_num_replicas=2"),
            HasSubstr("Saving dict for global step 12")));
  EXPECT_THAT(example.log_of("ps", "worker0"), Not(HasSubstr("Saving dict")));
  EXPECT_EQ(hash_of(example.job_dir("alone")), hash_of(example.job_dir("ps")));
  example.launch("collective", {"--workers", "1", "--ps", "0"},
                 kBatchOfOne + Words{"--strategy=collective"});
  EXPECT_EQ(hash_of(example.job_dir("alone")), hash_of(example.job_dir("collective")));
}

// A launch in which tasks of one type get other words than the rest: $0 is the program.
Outcome launch_with_other_words(const Cifar10Job& example, const std::string& name,
                                const std::string& type, const std::string& words) {
  const std::string script = "case \"$TF_CONFIG\" in *'\"type\":\"" + type + "\"'*) exec \"$0\" " +
                             words + ";; *) exec \"$0\" \"$@\";; esac";
  return testing::run_program(
      MUSTER_PROGRAM,
      Words{"launch", "--log-dir", example.log_dir(name), "--no-training-log", "--workers", "1",
            "--ps", "1", "--", "/bin/sh", "-c", script, CIFAR10_PROGRAM} +
          example.words(name, kBatchOfOne));
}

TEST(Cifar10, APsNeedsNoFilesAndNoFlagsOfTheModel) {
  const Cifar10Job example(2);
  example.run("alone", kBatchOfTwo);
  const Outcome outcome = launch_with_other_words(
      example, "ps", "ps", "--run_experiment=True --model_dir=" + example.job_dir("ps").string());
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  EXPECT_THAT(example.log_of("ps", "ps"), HasSubstr("serving what the chief trains: --data-dir"));
  EXPECT_EQ(hash_of(example.job_dir("alone")), hash_of(example.job_dir("ps")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("was closed here")));
}

TEST(Cifar10, AWorkerWithAnotherLearningRateIsRefusedByName) {
  const Cifar10Job example(2);
  const Outcome outcome =
      launch_with_other_words(example, "other", "worker", "\"$@\" --learning-rate 0.05");
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  EXPECT_THAT(example.log_of("other", "worker0"),
              HasSubstr("the chief's --learning-rate is '0.1', this task's '0.05'"));
}

TEST(Cifar10, TheExportHasTheAccuracyOfTheEvaluation) {
  const Cifar10Job example(1);
  // Small pictures and whitening are part of what is exported.
  const Outcome outcome = example.run(
      "job", kBatchOfOne + Words{"--image-size", "24", "--whitening", "--brightness", "63",
                                 "--contrast-lower", "0.2", "--contrast-upper", "1.8"});
  const auto begin = outcome.out.find("'accuracy': ") + 12;
  const std::string accuracy = outcome.out.substr(begin, outcome.out.find(',', begin) - begin);
  for (const char* how : {"model-run", "predict"}) {
    const Outcome checked = testing::run_program(
        "/usr/bin/python3",
        {SCRIPTS_DIR "/cifar10-accuracy", "--muster", MUSTER_PROGRAM, "--model-dir",
         graph::latest_export(example.job_dir("job") / "export/cifar10"), "--records",
         example.records("eval.tfrecords"), "--piece", "25", "--with", how, "--expect", accuracy});
    EXPECT_EQ(checked.status, 0) << checked.err;
    EXPECT_THAT(checked.out, HasSubstr("of 40 images right")) << how;
  }
}

TEST(Cifar10, CropsMadeByTheModelGiveTheSameWeights) {
  const Cifar10Job example(1);
  example.run("input", kBatchOfOne);
  example.run("model", kBatchOfOne + Words{"--gpu-augmentation"});
  EXPECT_EQ(hash_of(example.job_dir("input")), hash_of(example.job_dir("model")));
  example.run("whole", kBatchOfOne + Words{"--use-distortion-for-training", "False"});
  EXPECT_NE(hash_of(example.job_dir("input")), hash_of(example.job_dir("whole")));
}

TEST(Cifar10, WrongFlagsAreNamedAndExitWith2BeforeAnythingIsWritten) {
  const Cifar10Job example(1);
  const auto error_of = [&](const Words& more) {
    const Outcome outcome =
        testing::run_program(CIFAR10_PROGRAM, example.words("job", kBatchOfOne + more));
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error_of({"--train-on", "validate"}), HasSubstr("--train-on"));
  EXPECT_THAT(error_of({"--variable-strategy", "GPU"}), HasSubstr("--variable-strategy"));
  EXPECT_THAT(error_of({"--num-workers", "2"}), HasSubstr("--num-workers=2"));
  const auto alone = [&](const Words& more) {
    const Outcome outcome = testing::run_program(
        CIFAR10_PROGRAM,
        Words{"--data-dir", example.records(""), "--job-dir", example.job_dir("job")} + more);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(alone({"--eval-batch-size", "7"}),
              HasSubstr("--eval-batch-size=7 must divide the 40 images"));
  EXPECT_THAT(alone({"--num-gpus", "100", "--train-batch-size", "100"}),
              HasSubstr("--num-gpus=100, but this machine has"));
  EXPECT_FALSE(std::filesystem::exists(example.job_dir("job")));
}

}  // namespace
}  // namespace muster
