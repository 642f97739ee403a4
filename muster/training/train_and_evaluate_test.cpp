#include "muster/training/train_and_evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/cluster/tf_config.h"
#include "muster/estimator/small_net_internal.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header
using std::chrono::seconds;

RunConfig saving_every(std::int64_t steps, const Path& folder) {
  RunConfig config = quiet_config(folder);
  config.save_checkpoints_steps = steps;
  return config;
}

// The steps that evaluations were written for, in their order.
std::vector<std::int64_t> evaluated_steps(const Path& folder) {
  std::vector<std::int64_t> steps;
  std::istringstream lines(testing::read_bytes(folder / "eval/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    steps.push_back(nlohmann::json::parse(line).at("global_step").get<std::int64_t>());
  }
  return steps;
}

/// Everything that was logged while it lives.
class LogLines {
 public:
  LogLines() {
    log::set_sink([this](log::Level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      text_.append(line).append("\n");
    });
  }
  ~LogLines() { log::set_sink({}); }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

class RecordingExporter : public Exporter {
 public:
  const std::string& name() const override { return name_; }
  std::optional<Path> publish(const Estimator&, const Path& export_path, const Path& checkpoint,
                              const EvaluationResult& result, bool is_the_final_export) override {
    calls.push_back(fmt::format("{} step {} {}", checkpoint.filename().string(),
                                result.at("global_step"), is_the_final_export ? "final" : "early"));
    if (!is_the_final_export) return std::nullopt;
    return export_path / "1";
  }
  std::vector<std::string> calls;

 private:
  std::string name_ = "recorder";
};

TEST(TrainAndEvaluate, EvaluatesEveryCheckpointButTheFirstWhenNothingIsThrottled) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_every(4, folder.path()));
  const auto result =
      train_and_evaluate(estimator, {.input_fn = training_input, .max_steps = 10},
                         {.input_fn = evaluation_input, .steps = {}, .throttle_secs = seconds(0)});
  EXPECT_THAT(evaluated_steps(folder.path()), ElementsAre(4, 8, 10));
  EXPECT_EQ(result.metrics.at("global_step"), 10);
  EXPECT_EQ(result.metrics, estimator.evaluate(evaluation_input));
}

TEST(TrainAndEvaluate, ThrottlingLeavesTheFirstAndTheLastEvaluationAndSaysSo) {
  const TempDir folder;
  const LogLines log;
  Estimator estimator(small_options(), saving_every(2, folder.path()));
  train_and_evaluate(estimator, {.input_fn = training_input, .max_steps = 8},
                     {.input_fn = evaluation_input, .throttle_secs = seconds(3600)});
  EXPECT_THAT(evaluated_steps(folder.path()), ElementsAre(2, 8));
  EXPECT_THAT(log.text(), HasSubstr("Skip the current checkpoint eval due to throttle secs (3600 "
                                    "secs): step=4"));
}

TEST(TrainAndEvaluate, EveryStepsTakesThePlaceOfTheThrottle) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_every(2, folder.path()));
  train_and_evaluate(
      estimator, {.input_fn = training_input, .max_steps = 14},
      {.input_fn = evaluation_input, .throttle_secs = seconds(3600), .every_steps = 6});
  EXPECT_THAT(evaluated_steps(folder.path()), ElementsAre(6, 12, 14));
}

TEST(TrainAndEvaluate, TheInputGoesOnWhereItWasBeforeAnEvaluation) {
  const TempDir folder;
  Estimator plain(small_options(), quiet_config(folder / "plain"));
  plain.train(training_input, {.max_steps = 30});
  Estimator evaluated(small_options(), saving_every(7, folder / "evaluated"));
  train_and_evaluate(evaluated, {.input_fn = training_input, .max_steps = 30},
                     {.input_fn = evaluation_input, .throttle_secs = seconds(0)});
  EXPECT_EQ(latest_values(folder / "plain"), latest_values(folder / "evaluated"));
}

TEST(TrainAndEvaluate, WithTheStepsReachedItEvaluatesTheLastCheckpointAndSaysWhy) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_every(5, folder.path()));
  const EvalSpec eval{.input_fn = evaluation_input};
  const auto first = train_and_evaluate(estimator, {training_input, 5}, eval);
  const LogLines log;
  const auto second = train_and_evaluate(estimator, {training_input, 5}, eval);
  EXPECT_EQ(first.metrics, second.metrics);
  EXPECT_THAT(log.text(), HasSubstr("nothing was trained: step 5 is reached already"));
}

TEST(TrainAndEvaluate, AnInputThatEndsOnACheckpointIsEvaluatedOnceAndExportedAsFinal) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_every(5, folder.path()));
  const auto finite = [](const InputContext& in) {
    return range(80).shard(in).map(example).batch(8, collate_examples);
  };
  auto exporter = std::make_shared<RecordingExporter>();
  const auto result = train_and_evaluate(
      estimator, {.input_fn = finite},
      {.input_fn = evaluation_input, .exporters = {exporter}, .throttle_secs = seconds(0)});
  EXPECT_THAT(evaluated_steps(folder.path()), ElementsAre(5, 10));
  EXPECT_THAT(exporter->calls,
              ElementsAre("model.ckpt-5 step 5 early", "model.ckpt-10 step 10 early",
                          "model.ckpt-10 step 10 final"));
  EXPECT_EQ(result.exports.at("recorder"), folder / "export/recorder/1");
}

TEST(TrainAndEvaluate, ASignalDuringAnEvaluationEndsItWithTheStepSaved) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_every(3, folder.path()));
  const auto signalling = [](const InputContext& in) {
    ::raise(SIGTERM);
    return evaluation_input(in);
  };
  try {
    train_and_evaluate(estimator, {training_input, 9}, {.input_fn = signalling});
    FAIL() << "the signal was not noticed";
  } catch (const Interrupted& error) {
    EXPECT_EQ(error.signal(), SIGTERM);
  }
  StopSignals::reset();
  EXPECT_EQ(checkpoint_step(*estimator.latest_checkpoint()), 3);
}

TEST(TrainAndEvaluate, OtherTasksOfAClusterAreNamedInTheError) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.task = parse_tf_config(
      R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}})");
  Estimator estimator(small_options(), config);
  try {
    train_and_evaluate(estimator, {training_input, 5}, {.input_fn = evaluation_input});
    FAIL() << "a worker of a cluster was let through";
  } catch (const Unimplemented& error) {
    EXPECT_THAT(error.what(), HasSubstr("worker:0"));
  }
}

TEST(TrainAndEvaluate, AClusterOfOneTaskIsOneProcess) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.task =
      parse_tf_config(R"({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}})");
  Estimator estimator(small_options(), config);
  const auto result =
      train_and_evaluate(estimator, {training_input, 3}, {.input_fn = evaluation_input});
  EXPECT_EQ(result.metrics.at("global_step"), 3);
}

TEST(TrainAndEvaluate, SpecsAreCheckedBeforeAnythingIsDone) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder / "model"));
  EXPECT_THROW(train_and_evaluate(estimator, {}, {.input_fn = evaluation_input}), InvalidArgument);
  EXPECT_THROW(train_and_evaluate(estimator, {training_input, 5}, {}), InvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder / "model"));
}

}  // namespace
}  // namespace muster
