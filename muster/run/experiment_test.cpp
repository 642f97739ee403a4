#include "muster/run/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/platform/cluster/task_spec_def.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/run/learn_runner.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/run_metadata.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header
using std::chrono::seconds;

RunConfig saving_every(std::int64_t steps, const Path& folder) {
  RunConfig config = quiet_config(folder);
  config.checkpoints.save_checkpoints_steps = steps;
  return config;
}

ExperimentOptions inputs() {
  return {.train_input_fn = training_input,
          .eval_input_fn = evaluation_input,
          .eval_delay_secs = seconds(0),
          .continuous_eval_throttle_secs = seconds(0),
          .check_interval_secs = seconds(0)};
}

/// Keeps the steps of the evaluations that begin.
class EvaluatedSteps : public Hook {
 public:
  void begin(Session& session) override { steps.push_back(session.global_step()); }
  std::vector<std::int64_t> steps;
};

class StepsExporter : public Exporter {
 public:
  const std::string& name() const override { return name_; }
  std::optional<Path> publish(const Estimator&, const Path& export_path, const Path& checkpoint,
                              const EvaluationResult&, bool is_the_final_export) override {
    calls.push_back(fmt::format("{} {}", checkpoint_step(checkpoint).value_or(-1),
                                is_the_final_export ? "final" : "early"));
    return export_path / "1";
  }
  std::vector<std::string> calls;

 private:
  std::string name_ = "steps";
};

TaskEnvironment task_of(const std::string& task, const std::string& jobs) {
  return parse_tf_config(fmt::format(R"({{"cluster": {{{}}}, "task": {}}})", jobs, task));
}
TaskEnvironment task_of(const std::string& type, std::int64_t index = 0) {
  return task_of(fmt::format(R"({{"type": "{}", "index": {}}})", type, index),
                 R"("chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"])");
}

TEST(Experiment, HasTheDefaultsOfTheSeeds) {
  const ExperimentOptions options;
  EXPECT_EQ(options.eval_steps, 100);
  EXPECT_EQ(options.eval_delay_secs, seconds(120));
  EXPECT_EQ(options.continuous_eval_throttle_secs, seconds(60));
  EXPECT_EQ(options.min_eval_frequency, 1);
  EXPECT_EQ(options.check_interval_secs, seconds(5));
  EXPECT_FALSE(options.train_steps.has_value());
  EXPECT_FALSE(options.checkpoint_and_export);
  EXPECT_FALSE(options.delay_workers_by_global_step);
}

TEST(Experiment, NamesTheOptionThatCannotWork) {
  const TempDir folder;
  const Estimator estimator(small_options(), quiet_config(folder.path()));
  const auto error_with = [&](auto change) {
    ExperimentOptions options = inputs();
    change(options);
    return error_of([&] { Experiment(estimator, options); });
  };
  EXPECT_THAT(error_with([](auto& o) { o.train_input_fn = {}; }), HasSubstr("train_input_fn"));
  EXPECT_THAT(error_with([](auto& o) { o.eval_input_fn = {}; }), HasSubstr("eval_input_fn"));
  EXPECT_THAT(error_with([](auto& o) { o.train_steps = 0; }), HasSubstr("train_steps must be"));
  EXPECT_THAT(error_with([](auto& o) { o.eval_steps = -1; }), HasSubstr("eval_steps"));
  EXPECT_THAT(error_with([](auto& o) { o.min_eval_frequency = 0; }),
              HasSubstr("min_eval_frequency must be positive, or not set: 0"));
  EXPECT_THAT(error_with([](auto& o) { o.train_steps_per_iteration = 0; }),
              HasSubstr("train_steps_per_iteration"));
  EXPECT_THAT(error_with([](auto& o) { o.check_interval_secs = seconds(-1); }),
              HasSubstr("check_interval_secs must not be negative: -1"));
  EXPECT_EQ(error_with([](auto&) {}), "");
}

TEST(Experiment, EvaluatesEachNewCheckpointOnceWhileItTrains) {
  const TempDir folder;
  const auto evaluated = std::make_shared<EvaluatedSteps>();
  const auto exporter = std::make_shared<StepsExporter>();
  ExperimentOptions options = inputs();
  options.train_steps = 10;
  options.eval_hooks = {evaluated};
  options.exporters = {exporter};
  Experiment experiment({small_options(), saving_every(2, folder.path())}, options);
  const auto result = experiment.train_and_evaluate();
  EXPECT_THAT(evaluated->steps, ElementsAre(2, 4, 6, 8, 10));
  EXPECT_EQ(result.metrics.at("global_step"), 10);
  // Without checkpoint_and_export only the last is exported; results are in eval, without a name.
  EXPECT_THAT(exporter->calls, ElementsAre("10 final"));
  EXPECT_TRUE(std::filesystem::exists(folder / "eval/metrics.jsonl"));
}

TEST(Experiment, MinEvalFrequencyCountsStepsBetweenEvaluations) {
  const TempDir folder;
  const auto evaluated = std::make_shared<EvaluatedSteps>();
  ExperimentOptions options = inputs();
  options.train_steps = 11;
  options.min_eval_frequency = 5;
  options.eval_hooks = {evaluated};
  Experiment experiment({small_options(), saving_every(2, folder.path())}, options);
  experiment.local_run();
  EXPECT_THAT(evaluated->steps, ElementsAre(6, 11));
}

TEST(Experiment, WithoutMinEvalFrequencyOnlyTheLastCheckpointIsEvaluated) {
  const TempDir folder;
  const auto evaluated = std::make_shared<EvaluatedSteps>();
  const auto exporter = std::make_shared<StepsExporter>();
  ExperimentOptions options = inputs();
  options.train_steps = 6;
  options.min_eval_frequency = {};
  options.checkpoint_and_export = true;
  options.eval_hooks = {evaluated};
  options.exporters = {exporter};
  Experiment experiment({small_options(), saving_every(2, folder.path())}, options);
  experiment.train_and_evaluate();
  EXPECT_THAT(evaluated->steps, ElementsAre(6));
  EXPECT_THAT(exporter->calls, ElementsAre("6 final"));
}

TEST(Experiment, CheckpointAndExportExportsWhatIsEvaluated) {
  const TempDir folder;
  const auto exporter = std::make_shared<StepsExporter>();
  ExperimentOptions options = inputs();
  options.train_steps = 6;
  options.checkpoint_and_export = true;
  options.exporters = {exporter};
  Experiment experiment({small_options(), saving_every(2, folder.path())}, options);
  experiment.train_and_evaluate();
  EXPECT_THAT(exporter->calls, ElementsAre("2 early", "4 early", "6 final"));
}

TEST(Experiment, TrainDoesNotEvaluate) {
  const TempDir folder;
  const auto evaluated = std::make_shared<EvaluatedSteps>();
  ExperimentOptions options = inputs();
  options.train_steps = 3;
  options.eval_hooks = {evaluated};
  Experiment experiment({small_options(), quiet_config(folder.path())}, options);
  EXPECT_EQ(experiment.train().global_step, 3);
  EXPECT_THAT(evaluated->steps, IsEmpty());
  EXPECT_EQ(experiment.evaluate().at("global_step"), 3);
  EXPECT_TRUE(std::filesystem::exists(folder / "eval_one_pass/metrics.jsonl"));
}

TEST(Experiment, EvaluateWaitsForTheFirstCheckpointAndNoLonger) {
  const TempDir folder;
  ExperimentOptions options = inputs();
  options.train_steps = 2;
  Experiment trainer({small_options(), quiet_config(folder.path())}, options);
  Experiment evaluator({small_options(), quiet_config(folder.path())}, options);
  EXPECT_THAT(error_of([&] { evaluator.evaluate(); }), HasSubstr("there is no checkpoint"));
  auto result =
      std::async(std::launch::async, [&] { return evaluator.evaluate(seconds(600), "late"); });
  trainer.train();
  EXPECT_EQ(result.get().at("global_step"), 2);
}

TEST(Experiment, ContinuousEvalEndsAtTrainSteps) {
  const TempDir folder;
  ExperimentOptions options = inputs();
  options.train_steps = 4;
  const auto evaluated = std::make_shared<EvaluatedSteps>();
  ExperimentOptions eval_options = options;
  eval_options.eval_hooks = {evaluated};
  Experiment trainer({small_options(), saving_every(2, folder.path())}, options);
  Experiment evaluator({small_options(), quiet_config(folder.path())}, eval_options);
  auto result = std::async(std::launch::async, [&] { return evaluator.continuous_eval(); });
  trainer.train();
  EXPECT_EQ(result.get().metrics.at("global_step"), 4);
  EXPECT_EQ(evaluated->steps.back(), 4);
  EXPECT_TRUE(std::filesystem::exists(folder / "eval_continuous/metrics.jsonl"));
}

TEST(Experiment, ContinuousEvalEndsWhenItsPredicateSaysSo) {
  const TempDir folder;
  Experiment trainer({small_options(), quiet_config(folder.path())}, [] {
    auto o = inputs();
    o.train_steps = 2;
    return o;
  }());
  trainer.train();
  Experiment evaluator({small_options(), quiet_config(folder.path())}, inputs());
  int calls = 0;
  const auto result = evaluator.continuous_eval({.predicate_fn = [&](const EvaluationResult& seen) {
    EXPECT_EQ(seen.at("global_step"), 2);
    ++calls;
    return false;
  }});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(result.metrics.at("global_step"), 2);
}

TEST(Experiment, ContinuousEvalOnTrainDataReadsThatAndExportsNothing) {
  const TempDir folder;
  const auto exporter = std::make_shared<StepsExporter>();
  ExperimentOptions options = inputs();
  options.train_steps = 2;
  options.eval_steps = 3;
  options.exporters = {exporter};
  std::vector<Mode> modes;
  options.train_input_fn = [&modes](const InputContext& in) {
    modes.push_back(in.mode());
    return training_input(in);
  };
  options.eval_input_fn = [](const InputContext&) -> Dataset<Batch> {
    throw Internal("the evaluation input is not asked for");
  };
  Experiment experiment({small_options(), quiet_config(folder.path())}, options);
  experiment.train();
  experiment.continuous_eval_on_train_data();
  EXPECT_THAT(modes, ElementsAre(Mode::kTrain, Mode::kEval));
  EXPECT_THAT(exporter->calls, IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(folder / "eval_continuous_on_train_data/metrics.jsonl"));
}

TEST(Experiment, ContinuousTrainAndEvalHasTheWeightsOfOneRun) {
  const TempDir folder;
  Estimator plain(small_options(), quiet_config(folder / "plain"));
  plain.train(training_input, {.max_steps = 35});
  const auto evaluated = std::make_shared<EvaluatedSteps>();
  ExperimentOptions options = inputs();
  options.train_steps = 35;
  options.train_steps_per_iteration = 10;
  options.eval_hooks = {evaluated};
  Experiment experiment({small_options(), quiet_config(folder / "turns")}, options);
  const auto result = experiment.continuous_train_and_eval();
  EXPECT_THAT(evaluated->steps, ElementsAre(10, 20, 30, 35));
  EXPECT_EQ(result.metrics.at("global_step"), 35);
  EXPECT_EQ(latest_values(folder / "turns"), latest_values(folder / "plain"));
}

TEST(Experiment, ContinuousTrainAndEvalTakesATenthOfItsStepsAtATime) {
  const TempDir folder;
  const auto evaluated = std::make_shared<EvaluatedSteps>();
  const auto exporter = std::make_shared<StepsExporter>();
  ExperimentOptions options = inputs();
  options.train_steps = 20;
  options.eval_hooks = {evaluated};
  options.exporters = {exporter};
  Experiment experiment({small_options(), quiet_config(folder.path())}, options);
  experiment.continuous_train_and_eval(
      [](const EvaluationResult& seen) { return seen.at("global_step") < 6; });
  EXPECT_THAT(evaluated->steps, ElementsAre(2, 4, 6));
  EXPECT_THAT(exporter->calls, ElementsAre("6 final"));
}

TEST(Experiment, ContinuousTrainAndEvalEndsWithItsInput) {
  const TempDir folder;
  ExperimentOptions options = inputs();
  options.train_steps_per_iteration = 10;
  options.train_input_fn = [](const InputContext& in) { return training_input(in).take(13); };
  const auto evaluated = std::make_shared<EvaluatedSteps>();
  options.eval_hooks = {evaluated};
  Experiment experiment({small_options(), quiet_config(folder.path())}, options);
  experiment.continuous_train_and_eval();
  EXPECT_THAT(evaluated->steps, ElementsAre(10, 13));
}

TEST(Experiment, TestDoesOneOfEach) {
  const TempDir folder;
  const auto exporter = std::make_shared<StepsExporter>();
  ExperimentOptions options = inputs();
  options.exporters = {exporter};
  Experiment experiment({small_options(), quiet_config(folder.path())}, options);
  const auto result = experiment.test();
  EXPECT_EQ(result.metrics.at("global_step"), 1);
  EXPECT_THAT(exporter->calls, ElementsAre("1 final"));
  EXPECT_EQ(result.exports.size(), 1U);
}

TEST(Experiment, RefusesWhatATaskCannotDo) {
  const TempDir folder;
  const auto error_as = [&](const TaskEnvironment& task, std::string_view schedule) {
    RunConfig config = quiet_config(folder.path());
    config.cluster.task = task;
    Experiment experiment({small_options(), config}, inputs());
    return error_of([&] { experiment.run(schedule); });
  };
  EXPECT_THAT(error_as(task_of("ps"), "train"),
              HasSubstr("ps:0 of a cluster does not train; its schedule is run_std_server"));
  EXPECT_THAT(error_as(task_of("worker", 1), "run_std_server"),
              HasSubstr("this task is worker:1, whose schedule is train"));
  for (const char* schedule : {"local_run", "test", "continuous_train_and_eval"}) {
    EXPECT_THAT(error_as(task_of("chief"), schedule),
                AllOf(HasSubstr(schedule), HasSubstr("TF_CONFIG makes this task chief:0")));
  }
  EXPECT_THAT(error_as({}, "serve"), AllOf(HasSubstr("no schedule \"serve\""),
                                           HasSubstr("train_and_evaluate, local_run")));
}

TEST(Experiment, AWorkerWaitsForItsTurnOnlyWhereTasksStepOnTheirOwn) {
  const auto delay_of = [](bool sync, const std::string& type, std::int64_t index) {
    std::string workers;
    for (int i = 0; i < 20; ++i) workers += fmt::format(R"({}"b:{}")", i == 0 ? "" : ", ", i + 1);
    RunConfig config;
    config.cluster.sync = sync;
    config.cluster.task =
        task_of(fmt::format(R"({{"type": "{}", "index": {}}})", type, index),
                fmt::format(R"("chief": ["a:1"], "worker": [{}], "ps": ["d:1"])", workers));
    return worker_start_delay(config).count();
  };
  EXPECT_EQ(delay_of(true, "worker", 3), 0);
  EXPECT_EQ(delay_of(false, "chief", 0), 0);
  EXPECT_EQ(delay_of(false, "worker", 0), 0);
  EXPECT_EQ(delay_of(false, "worker", 3), 15);
  EXPECT_EQ(delay_of(false, "worker", 19), 60);
}

TEST(Experiment, DelaysTheStartOfTrainingAsAskedFor) {
  const TempDir folder;
  ExperimentOptions options = inputs();
  options.train_steps = 1;
  Experiment experiment({small_options(), quiet_config(folder.path())}, options);
  const auto start = std::chrono::steady_clock::now();
  experiment.train(seconds(1));
  EXPECT_GE(std::chrono::steady_clock::now() - start, seconds(1));
}

TEST(Experiment, AWorkerThatWaitsForAStepNamesItWhenItDoesNotCome) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.cluster.task = task_of("worker", 1);
  config.cluster.sync = false;
  config.cluster.session_creation_timeout_secs = seconds(1);
  ExperimentOptions options = inputs();
  options.delay_workers_by_global_step = true;
  Experiment experiment({small_options(), config}, options);
  EXPECT_THAT(
      error_of([&] { experiment.train(); }),
      AllOf(HasSubstr("the turn of worker:1: step 5545"), HasSubstr("only step 0 is saved")));
}

TEST(DefaultSchedule, FollowsTheTask) {
  EXPECT_EQ(default_schedule({}), "train_and_evaluate");
  EXPECT_EQ(default_schedule(task_of("chief")), "train");
  EXPECT_EQ(default_schedule(task_of("worker", 1)), "train");
  EXPECT_EQ(default_schedule(task_of("ps")), "run_std_server");
  EXPECT_EQ(default_schedule(task_of("evaluator")), "continuous_eval");
  EXPECT_EQ(default_schedule(task_of(R"({"type": "master", "index": 0})",
                                     R"("master": ["a:1"], "worker": ["b:1"])")),
            "train_and_evaluate");
  // A cluster of one task is no cluster.
  EXPECT_EQ(default_schedule(task_of(R"({"type": "chief", "index": 0})", R"("chief": ["a:1"])")),
            "train_and_evaluate");
  TaskEnvironment other = task_of("worker", 1);
  other.task.type = "gardener";
  EXPECT_THAT(error_of([&] { default_schedule(other); }),
              HasSubstr("no schedule for a task of type \"gardener\""));
}

TEST(DefaultSchedule, OfTheLastWorkerAsEvaluatorIsContinuousEval) {
  const TaskSpecDef last(
      {.type = "worker", .index = 1, .ps_hosts = {"a:1"}, .worker_hosts = {"b:1", "c:1"}});
  EXPECT_EQ(default_schedule(last.to_task_environment()), "train");
  EXPECT_EQ(default_schedule(last.use_last_worker_as_evaluator().to_task_environment()),
            "continuous_eval");
  EXPECT_EQ(default_schedule(last.user_last_worker_as_evaluator().to_task_environment()),
            "continuous_eval");
}

learn_runner::ExperimentFn small_experiment(std::int64_t steps) {
  return [steps](const RunConfig& config) {
    ExperimentOptions options = inputs();
    options.train_steps = steps;
    return Experiment({small_options(), config}, options);
  };
}

TEST(LearnRunner, RunsTheScheduleOfTheTask) {
  const TempDir folder;
  const auto result =
      learn_runner::run(small_experiment(3), {.run_config = quiet_config(folder.path())});
  EXPECT_EQ(result.metrics.at("global_step"), 3);
}

TEST(LearnRunner, RunsTheScheduleThatIsAskedFor) {
  const TempDir folder;
  RunConfig config = quiet_config({});
  const auto result =
      learn_runner::run(small_experiment(3),
                        {.run_config = config, .output_dir = folder.path(), .schedule = "train"});
  EXPECT_THAT(result.metrics, IsEmpty());
  EXPECT_EQ(checkpoint_step(*latest_checkpoint(folder.path())), 3);
}

TEST(LearnRunner, RefusesWhatDoesNotFitTogether) {
  const TempDir folder;
  const RunConfig config = quiet_config(folder / "a");
  const auto error_with = [&](const learn_runner::ExperimentFn& make,
                              const learn_runner::Options& options) {
    return error_of([&] { learn_runner::run(make, options); });
  };
  EXPECT_THAT(error_with({}, {.run_config = config}), HasSubstr("experiment_fn is not set"));
  EXPECT_THAT(error_with(small_experiment(1), {.run_config = quiet_config({})}),
              HasSubstr("no model folder is named"));
  EXPECT_THAT(error_with(small_experiment(1), {.run_config = config, .output_dir = folder / "b"}),
              HasSubstr("set one of them"));
  EXPECT_THAT(error_with(small_experiment(1), {.run_config = config, .schedule = "serve"}),
              HasSubstr("no schedule \"serve\""));
  const auto elsewhere = [&](const RunConfig& given) {
    RunConfig other = given;
    other.model_dir = folder / "c";
    return Experiment({small_options(), other}, inputs());
  };
  EXPECT_THAT(error_with(elsewhere, {.run_config = config}),
              HasSubstr("make it with the RunConfig"));
  RunConfig worker = config;
  worker.cluster.task = task_of("worker", 1);
  const auto alone = [&](const RunConfig&) {
    return Experiment({small_options(), config}, inputs());
  };
  EXPECT_THAT(error_with(alone, {.run_config = worker}),
              AllOf(HasSubstr("worker:1"), HasSubstr("make it with the RunConfig")));
}

}  // namespace
}  // namespace muster
