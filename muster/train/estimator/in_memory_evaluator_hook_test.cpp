#include "muster/train/estimator/in_memory_evaluator_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header

std::vector<nlohmann::json> evaluations(const Path& eval_dir) {
  std::ifstream file(eval_dir / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<std::int64_t> steps_of(const std::vector<nlohmann::json>& lines) {
  std::vector<std::int64_t> steps;
  for (const auto& line : lines) steps.push_back(line.at("global_step").get<std::int64_t>());
  return steps;
}

HookPtr evaluator_of(const Estimator& estimator, const std::string& name = "") {
  return std::make_shared<InMemoryEvaluatorHook>(
      estimator, evaluation_input,
      InMemoryEvaluatorOptions{.steps = 2, .name = name, .every_n_iter = 3});
}

TEST(InMemoryEvaluatorHook, EvaluatesAtTheBeginningByItsOwnIterationsAndAtTheEnd) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.checkpoints.save_checkpoints = false;
  Estimator estimator(small_options(), config);
  estimator.train(training_input, {.max_steps = 7, .hooks = {evaluator_of(estimator)}});
  const auto lines = evaluations(estimator.eval_dir());
  EXPECT_THAT(steps_of(lines), ElementsAre(0, 3, 6, 7));
  EXPECT_NE(lines.front().at("loss"), lines.back().at("loss"));
  EXPECT_FALSE(lines.front().contains("checkpoint"));
  EXPECT_FALSE(estimator.latest_checkpoint());
}

TEST(InMemoryEvaluatorHook, CountsFromTheStepOfAResumeAndEvaluatesTheLastOnce) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  estimator.train(training_input, {.max_steps = 4});
  estimator.train(training_input, {.max_steps = 10, .hooks = {evaluator_of(estimator, "now")}});
  EXPECT_THAT(steps_of(evaluations(estimator.eval_dir("now"))), ElementsAre(4, 7, 10));
}

TEST(InMemoryEvaluatorHook, SeesWhatTheCheckpointOfThatStepHoldsAveragesIncluded) {
  for (const bool averages : {false, true}) {
    const TempDir folder;
    EstimatorOptions options = small_options();
    if (averages) options.moving_average = MovingAverageOptions{.decay = 0.5};
    options.weight_decay.factor = 0.1;
    Estimator estimator(options, quiet_config(folder.path()));
    estimator.train(training_input, {.max_steps = 5, .hooks = {evaluator_of(estimator)}});
    const EvaluationResult saved = estimator.evaluate(evaluation_input, {.steps = 2});
    const auto in_memory = evaluations(estimator.eval_dir()).at(2);
    ASSERT_EQ(in_memory.at("global_step"), 5);
    for (const auto& [name, value] : saved) EXPECT_EQ(in_memory.at(name), value) << name;
  }
}

TEST(InMemoryEvaluatorHook, DoesNotChangeTheTraining) {
  const TempDir folder;
  Estimator plain(small_options(), quiet_config(folder / "plain"));
  plain.train(training_input, {.max_steps = 8});
  Estimator watched(small_options(), quiet_config(folder / "watched"));
  watched.train(training_input, {.max_steps = 8, .hooks = {evaluator_of(watched)}});
  EXPECT_EQ(latest_values(folder / "plain"), latest_values(folder / "watched"));
}

TEST(InMemoryEvaluatorHook, RefusesWhatCannotWork) {
  const TempDir folder;
  const Estimator estimator(small_options(), quiet_config(folder / "one"));
  EXPECT_THROW(InMemoryEvaluatorHook(estimator, {}), InvalidArgument);
  EXPECT_THROW(InMemoryEvaluatorHook(estimator, evaluation_input, {.every_n_iter = 0}),
               InvalidArgument);
  EXPECT_THROW(InMemoryEvaluatorHook(estimator, evaluation_input, {.steps = 0}), InvalidArgument);
  RunConfig config = quiet_config(folder / "many");
  config.cluster.task = parse_tf_config(
      R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": 0}})");
  const Estimator chief(small_options(), config);
  EXPECT_THAT(error_of([&] { InMemoryEvaluatorHook(chief, evaluation_input); }),
              HasSubstr("train_and_evaluate"));
}

}  // namespace
}  // namespace muster
