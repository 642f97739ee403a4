#include "muster/run/train_and_evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/summary/event_reader.h"
#include "muster/distribution/collective.h"
#include "muster/export/exporters.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/run/evaluation_dry_run_internal.h"
#include "muster/run/training_task_internal.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/default_attrs.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/saved_model/graph/join.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/canned/canned.h"
#include "muster/train/engine/strategy.h"
#include "muster/train/estimator/run_metadata.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header
using std::chrono::seconds;

RunConfig saving_each(std::int64_t steps, const Path& folder) {
  RunConfig config = quiet_config(folder);
  config.checkpoints.save_checkpoints_steps = steps;
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
    if (is_the_final_export != exports_the_final) return std::nullopt;
    return export_path / "1";
  }
  std::vector<std::string> calls;
  bool exports_the_final = true;

 private:
  std::string name_ = "recorder";
};

TEST(TrainAndEvaluate, EvaluatesEveryCheckpointButTheFirstWhenNothingIsThrottled) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_each(4, folder.path()));
  const auto result =
      train_and_evaluate(estimator, {.input_fn = training_input, .max_steps = 10},
                         {.input_fn = evaluation_input, .steps = {}, .throttle_secs = seconds(0)});
  EXPECT_THAT(evaluated_steps(folder.path()), ElementsAre(4, 8, 10));
  EXPECT_EQ(result.metrics.at("global_step"), 10);
  EXPECT_EQ(result.metrics, estimator.evaluate(evaluation_input));
}

/// Notes what it is told, and ends the training after the evaluation of a step.
class ValidationHook : public Hook {
 public:
  explicit ValidationHook(std::int64_t stop_at = -1) : stop_at_(stop_at) {}
  void begin(Session& session) override { note("begin", session); }
  void before_evaluation(Session& session) override { note("before", session); }
  void after_evaluation(Session& session, const EvaluationResult& metrics) override {
    EXPECT_GT(metrics.at("loss"), 0);
    EXPECT_EQ(metrics.at("global_step"), session.global_step());
    note("after", session);
    if (session.global_step() == stop_at_) session.request_stop("validated enough");
  }
  void end(Session& session) override { note("end", session); }
  std::vector<std::string> calls;

 private:
  void note(std::string_view what, const Session& session) {
    calls.push_back(fmt::format("{} {}", what, session.global_step()));
  }
  std::int64_t stop_at_;
};

TEST(TrainAndEvaluate, TellsHooksOfTrainingAndEvaluationOfEachEvaluation) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_each(4, folder.path()));
  const auto training = std::make_shared<ValidationHook>();
  const auto evaluation = std::make_shared<ValidationHook>();
  train_and_evaluate(
      estimator, {.input_fn = training_input, .max_steps = 10, .hooks = {training}},
      {.input_fn = evaluation_input, .hooks = {evaluation}, .throttle_secs = seconds(0)});
  EXPECT_THAT(training->calls,
              ElementsAre("begin 0", "before 4", "after 4", "before 8", "after 8", "end 10"));
  EXPECT_THAT(evaluation->calls,
              ElementsAre("before 4", "begin 4", "end 4", "after 4", "before 8", "begin 8", "end 8",
                          "after 8", "before 10", "begin 10", "end 10", "after 10"));
}

TEST(TrainAndEvaluate, AHookEndsTheTrainingByWhatAnEvaluationShows) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_each(4, folder.path()));
  const auto hook = std::make_shared<ValidationHook>(/*stop_at=*/8);
  const auto result =
      train_and_evaluate(estimator, {.input_fn = training_input, .max_steps = 100, .hooks = {hook}},
                         {.input_fn = evaluation_input, .throttle_secs = seconds(0)});
  EXPECT_EQ(result.metrics.at("global_step"), 8);
  EXPECT_THAT(evaluated_steps(folder.path()), ElementsAre(4, 8));
}

TEST(TrainAndEvaluate, ThrottlingLeavesTheFirstAndTheLastEvaluationAndSaysSo) {
  const TempDir folder;
  const LogLines log;
  Estimator estimator(small_options(), saving_each(2, folder.path()));
  train_and_evaluate(estimator, {.input_fn = training_input, .max_steps = 8},
                     {.input_fn = evaluation_input, .throttle_secs = seconds(3600)});
  EXPECT_THAT(evaluated_steps(folder.path()), ElementsAre(2, 8));
  EXPECT_THAT(log.text(), HasSubstr("Skip the current checkpoint eval due to throttle secs (3600 "
                                    "secs): step=4"));
}

TEST(TrainAndEvaluate, EveryStepsTakesThePlaceOfTheThrottle) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_each(2, folder.path()));
  train_and_evaluate(
      estimator, {.input_fn = training_input, .max_steps = 14},
      {.input_fn = evaluation_input, .throttle_secs = seconds(3600), .every_steps = 6});
  EXPECT_THAT(evaluated_steps(folder.path()), ElementsAre(6, 12, 14));
}

TEST(TrainAndEvaluate, TheInputGoesOnWhereItWasBeforeAnEvaluation) {
  const TempDir folder;
  Estimator plain(small_options(), quiet_config(folder / "plain"));
  plain.train(training_input, {.max_steps = 30});
  Estimator evaluated(small_options(), saving_each(7, folder / "evaluated"));
  train_and_evaluate(evaluated, {.input_fn = training_input, .max_steps = 30},
                     {.input_fn = evaluation_input, .throttle_secs = seconds(0)});
  EXPECT_EQ(latest_values(folder / "plain"), latest_values(folder / "evaluated"));
}

TEST(TrainAndEvaluate, WithTheStepsReachedItEvaluatesTheLastCheckpointAndSaysWhy) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_each(5, folder.path()));
  const EvalSpec eval{.input_fn = evaluation_input};
  const auto first = train_and_evaluate(estimator, {training_input, 5}, eval);
  const LogLines log;
  const auto second = train_and_evaluate(estimator, {training_input, 5}, eval);
  EXPECT_EQ(first.metrics, second.metrics);
  EXPECT_THAT(log.text(), HasSubstr("nothing was trained: step 5 is reached already"));
}

TEST(TrainAndEvaluate, AnInputThatEndsOnACheckpointIsEvaluatedOnceAndExportedAsFinal) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_each(5, folder.path()));
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

ServingInput small_input() {
  return raw_serving_input(
      evaluation_input(InputContext(Mode::kEval, 1, 0, 0)).iterate()->next()->features.slice(0, 2));
}

// Global steps in the notes of a folder's SavedModels, oldest first.
std::vector<std::int64_t> exported_steps(const Path& folder) {
  std::vector<std::int64_t> steps;
  for (const Path& dir : graph::exports_in(folder)) {
    const Path note = dir / "assets.extra/muster.json";
    steps.push_back(parse_export_note(testing::read_bytes(note), note.string()).global_step);
  }
  return steps;
}

TEST(TrainAndEvaluate, WhatCannotBeExportedIsAnErrorBeforeTheFirstStep) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.model = [] { return std::make_shared<BesselNet>(); };
  Estimator estimator(options, quiet_config(folder.path()));
  EvalSpec spec{.input_fn = evaluation_input, .exporters = {final_exporter("it", small_input())}};
  EXPECT_THAT(error_of([&] {
                train_and_evaluate(estimator, {training_input, 2}, spec);
              }),
              AllOf(HasSubstr("the exporter it cannot export"), HasSubstr("aten::i0")));
  EXPECT_FALSE(estimator.latest_checkpoint());
  spec.exporters.clear();
  EXPECT_EQ(train_and_evaluate(estimator, {training_input, 2}, spec).metrics.at("global_step"), 2);
}

TEST(TrainAndEvaluate, ExportersExportTheCheckpointsThatWereEvaluatedEachOnce) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_each(5, folder.path()));
  const auto finite = [](const InputContext& in) {
    return range(80).shard(in).map(example).batch(8, collate_examples);
  };
  const auto result = train_and_evaluate(estimator, {.input_fn = finite},
                                         {.input_fn = evaluation_input,
                                          .exporters = {final_exporter("final", small_input()),
                                                        latest_exporter("latest", small_input()),
                                                        best_exporter("best", small_input())},
                                          .throttle_secs = seconds(0)});
  EXPECT_THAT(exported_steps(folder / "export/final"), ElementsAre(10));
  EXPECT_THAT(exported_steps(folder / "export/latest"), ElementsAre(5, 10));
  EXPECT_EQ(result.exports.at("final"), graph::latest_export(folder / "export/final"));
  EXPECT_EQ(result.exports.at("latest"), graph::latest_export(folder / "export/latest"));
  const auto best = read_export_note(folder.path(), "best");
  EXPECT_THAT(exported_steps(folder / "export/best"), Contains(best->global_step));
  EXPECT_LE(best->metrics.at("loss"), result.metrics.at("loss"));
}

/// Cannot do its work at all, or only when it matters.
class FailingExporter : public Exporter {
 public:
  explicit FailingExporter(bool only_early) : only_early_(only_early) {}
  const std::string& name() const override { return name_; }
  std::optional<Path> publish(const Estimator&, const Path&, const Path&, const EvaluationResult&,
                              bool is_the_final_export) override {
    if (only_early_ && is_the_final_export) return std::nullopt;
    throw ResourceExhausted("the disk is full");
  }

 private:
  bool only_early_;
  std::string name_ = "failing";
};

TEST(TrainAndEvaluate, AnExporterThatFailsWhileTrainingGoesOnIsLogged) {
  const TempDir folder;
  const LogLines log;
  Estimator estimator(small_options(), saving_each(4, folder.path()));
  const auto result = train_and_evaluate(
      estimator, {training_input, 6},
      {.input_fn = evaluation_input, .exporters = {std::make_shared<FailingExporter>(true)}});
  EXPECT_EQ(result.metrics.at("global_step"), 6);
  EXPECT_THAT(log.text(), HasSubstr(fmt::format("exporter failing did not export {}: the disk is "
                                                "full",
                                                (folder / "model.ckpt-4").string())));
}

TEST(TrainAndEvaluate, AFinalExportThatFailsIsThrownWhenTheOthersAreDone) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_each(4, folder.path()));
  auto after = std::make_shared<RecordingExporter>();
  try {
    train_and_evaluate(estimator, {training_input, 6},
                       {.input_fn = evaluation_input,
                        .exporters = {std::make_shared<FailingExporter>(false), after}});
    FAIL() << "no error was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("exporter failing"), HasSubstr("model.ckpt-6"),
                                    HasSubstr("the disk is full")));
  }
  EXPECT_THAT(after->calls, ElementsAre("model.ckpt-4 step 4 early", "model.ckpt-6 step 6 final"));
  EXPECT_EQ(checkpoint_step(*estimator.latest_checkpoint()), 6);
  EXPECT_THAT(evaluated_steps(folder.path()), ElementsAre(4, 6));
}

TEST(TrainAndEvaluate, TheResultNamesExportsOfTheLastCheckpointAlone) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_each(4, folder.path()));
  auto early = std::make_shared<RecordingExporter>();
  early->exports_the_final = false;
  const auto result = train_and_evaluate(estimator, {training_input, 6},
                                         {.input_fn = evaluation_input, .exporters = {early}});
  EXPECT_THAT(early->calls, SizeIs(2));
  EXPECT_THAT(result.exports, IsEmpty());
}

TEST(TrainAndEvaluate, TwoExportersOfOneNameAreRefused) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder / "model"));
  EXPECT_THROW(train_and_evaluate(estimator, {training_input, 5},
                                  {.input_fn = evaluation_input,
                                   .exporters = {final_exporter("a", small_input()),
                                                 latest_exporter("a", small_input())}}),
               InvalidArgument);
}

// The graph of model_dir/graph.pb, and those of its event files.
graph::MetaGraph graph_file(const Path& folder) {
  return graph::decode_saved_model(testing::read_bytes(folder / "graph.pb")).meta_graphs.at(0);
}
std::vector<graph::GraphDef> graph_events(const Path& folder) {
  std::vector<graph::GraphDef> graphs;
  EventReader reader(folder);
  while (const auto event = reader.next()) {
    if (const auto* graph = std::get_if<GraphBytes>(&event->what)) {
      graphs.push_back(graph::decode_graph(graph->bytes));
    }
  }
  return graphs;
}

TEST(TrainAndEvaluate, WritesTheGraphOfTheFirstExporterForPeopleAndPrograms) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  const auto result = train_and_evaluate(
      estimator, {training_input, 3},
      {.input_fn = evaluation_input, .exporters = {final_exporter("final", small_input())}});
  const auto graph = graph_file(folder.path());
  const auto exported = graph::read_saved_model(result.exports.at("final"));
  EXPECT_EQ(graph.graph, exported.meta_graphs.at(0).graph);
  EXPECT_EQ(graph.signatures, exported.meta_graphs.at(0).signatures);
  // TensorBoard knows no defaults.
  graph::GraphDef shown = graph.graph;
  graph::add_default_attrs(shown);
  EXPECT_NE(shown, graph.graph);
  EXPECT_THAT(graph_events(folder.path()), ElementsAre(shown));
}

TEST(TrainAndEvaluate, WithoutExportersTheGraphTakesWhatTheEvaluationFeeds) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  train_and_evaluate(estimator, {training_input, 3}, {.input_fn = evaluation_input});
  const auto graph = graph_file(folder.path());
  const auto& inputs = graph.signatures.at("serving_default").inputs;
  ASSERT_EQ(inputs.size(), 1U);
  EXPECT_EQ(inputs.at("x").shape, (graph::Shape{-1, kInputs}));
}

// Beside the numbers a word that the model reads through a column, and one that it does not read.
Dataset<Batch> words_input(const InputContext& in) {
  return training_input(in).map([](Batch batch) {
    const std::int64_t rows = batch.features.batch_size();
    const std::vector<std::string> words(static_cast<std::size_t>(rows), "word");
    for (const char* name : {"read", "unread"}) {
      batch.features.add(name, StringColumn(words, {rows}));
    }
    return batch;
  });
}

TEST(TrainAndEvaluate, WithoutExportersTheGraphOfAModelWithColumnsTakesRawFeatures) {
  const TempDir folder;
  Estimator estimator =
      linear_classifier({.feature_columns = {numeric_column("x", {.shape = {kInputs}}),
                                             categorical_column_with_hash_bucket("read", 10)},
                         .n_classes = kClasses},
                        quiet_config(folder.path()));
  train_and_evaluate(estimator, {words_input, 3}, {.input_fn = words_input, .steps = 2});
  const auto graph = graph_file(folder.path());
  const auto& inputs = graph.signatures.at("serving_default").inputs;
  ASSERT_EQ(inputs.size(), 2U);
  EXPECT_EQ(inputs.at("x").shape, (graph::Shape{-1, kInputs}));
  EXPECT_EQ(inputs.at("read").dtype, graph::DataType::kString);
}

TEST(TrainAndEvaluate, AResumedRunDoesNotWriteItsGraphAgain) {
  const TempDir folder;
  for (const std::int64_t steps : {3, 6}) {
    Estimator estimator(small_options(), quiet_config(folder.path()));
    train_and_evaluate(estimator, {training_input, steps}, {.input_fn = evaluation_input});
  }
  EXPECT_THAT(graph_events(folder.path()), SizeIs(1));
}

TEST(TrainAndEvaluate, TellsTensorBoardWhatARunIsTrainedWithAndThatItEnded) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.hparams = {{"train_batch_size", "8"}, {"schedule", "cosine"}, {"learning_rate", "99"}};
  Estimator estimator(small_options(), config);
  train_and_evaluate(estimator, {training_input, 3}, {.input_fn = evaluation_input});
  std::vector<std::string> tags;
  std::string content;
  EventReader reader(folder.path());
  while (const auto event = reader.next()) {
    const auto* summary = std::get_if<Summary>(&event->what);
    if (summary == nullptr) continue;
    for (const SummaryValue& value : *summary) {
      if (value.plugin != "hparams") continue;
      tags.push_back(value.tag);
      content += value.plugin_content;
    }
  }
  EXPECT_THAT(tags, ElementsAre("_hparams_/experiment", "_hparams_/session_start_info",
                                "_hparams_/session_end_info"));
  // The program's flags, numbers as numbers; what the estimator knows better is not theirs.
  EXPECT_THAT(content, AllOf(HasSubstr("train_batch_size"), HasSubstr("cosine")));
  const double eight = 8;
  const double wrong = 99;
  EXPECT_THAT(content, HasSubstr(std::string(reinterpret_cast<const char*>(&eight), 8)));
  EXPECT_THAT(content, Not(HasSubstr(std::string(reinterpret_cast<const char*>(&wrong), 8))));
}

TEST(TrainAndEvaluate, FindsWhatKeepsItFromEvaluatingBeforeItTrains) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  const auto missing = [](const InputContext&) -> Dataset<Batch> {
    throw NotFound("no evaluation file");
  };
  EXPECT_THAT(error_of([&] {
                train_and_evaluate(estimator, {training_input, 3}, {.input_fn = missing});
              }),
              AllOf(HasSubstr("no evaluation file"), HasSubstr("before training begins")));
  EXPECT_EQ(estimator.latest_checkpoint(), std::nullopt);
}

TEST(TrainAndEvaluate, TheGraphAndACheckpointAnswerAsTheEstimatorDoes) {
  for (const bool averages : {false, true}) {
    const TempDir folder;
    EstimatorOptions options = small_options();
    if (averages) options.moving_average = MovingAverageOptions{.decay = 0.9};
    Estimator estimator(options, quiet_config(folder.path()));
    train_and_evaluate(estimator, {training_input, 20}, {.input_fn = evaluation_input});
    graph::write_joined_model(graph_file(folder.path()), {},
                              BundleReader(*estimator.latest_checkpoint()), folder / "joined");
    const auto batch = evaluation_input(InputContext(Mode::kEval, 1, 0, 0)).iterate()->next();
    const auto answers = executor::ExecutableModel::load(folder / "joined")
                             .run("serving_default", {{"x", batch->features.tensor("x")}});
    const auto wanted =
        estimator.predict(evaluation_input, {.yield_single_examples = false}).next();
    EXPECT_TRUE(at::allclose(std::get<at::Tensor>(answers.at("logits")), wanted->tensor("logits"),
                             1e-5, 1e-5))
        << "with averages: " << averages;
  }
}

TEST(TrainAndEvaluate, AModelThatCannotBeTracedIsTrainedWithALineInTheLog) {
  const TempDir folder;
  testing::write_bytes(folder / "graph.pb", "of an earlier model");
  const LogLines log;
  EstimatorOptions options = small_options();
  options.model = [] {
    auto net = std::make_shared<SmallNet>();
    return model_from(net, [net](const Features& x) {
      const auto y = net->forward(x);
      return y + torch::mvlgamma(torch::zeros_like(y) + 2, 1);  // TensorFlow has none.
    });
  };
  Estimator estimator(options, quiet_config(folder.path()));
  const auto result =
      train_and_evaluate(estimator, {training_input, 3}, {.input_fn = evaluation_input});
  EXPECT_EQ(result.metrics.at("global_step"), 3);
  EXPECT_THAT(log.text(), HasSubstr("no graph of the model is written: "));
  EXPECT_FALSE(std::filesystem::exists(folder / "graph.pb"));
}

TEST(TrainAndEvaluate, ASignalDuringAnEvaluationEndsItWithTheStepSaved) {
  const TempDir folder;
  Estimator estimator(small_options(), saving_each(3, folder.path()));
  // The first call gives the batch that the model is traced with.
  const auto signalling = [calls = std::make_shared<int>(0)](const InputContext& in) {
    if (++*calls == 2) ::raise(SIGTERM);
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

// --------------------------------------------------------------------------------- in a cluster

RunConfig task_config(const Path& folder, const std::string& cluster, const std::string& type) {
  RunConfig config = quiet_config(folder);
  config.cluster.task = parse_tf_config(
      fmt::format(R"({{"cluster": {}, "task": {{"type": "{}", "index": 0}}}})", cluster, type));
  return config;
}

TEST(TrainAndEvaluate, EveryTaskOfAClusterRefusesWhatPsTasksCannotDo) {
  for (const char* type : {"chief", "worker", "ps"}) {
    const TempDir folder;
    RunConfig config = task_config(folder / "model",
                                   R"({"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]})", type);
    EstimatorOptions options = small_options();
    options.moving_average = MovingAverageOptions{.decay = 0.9};
    Estimator averaging(options, config);
    const EvalSpec eval{.input_fn = evaluation_input};
    EXPECT_THAT(error_of([&] {
                  train_and_evaluate(averaging, {training_input, 5}, eval);
                }),
                AllOf(HasSubstr(std::string(type) + ":0"), HasSubstr("moving_average")));
    config.cluster.train_distribute = [](const RunConfig& run) { return make_collective(run); };
    Estimator collective(small_options(), config);
    EXPECT_THAT(error_of([&] {
                  train_and_evaluate(collective, {training_input, 5}, eval);
                }),
                AllOf(HasSubstr(std::string(type) + ":0"), HasSubstr("leave the ps out")));
    EXPECT_FALSE(std::filesystem::exists(folder / "model"));
  }
}

TEST(TrainAndEvaluate, AStrategyThatTheClusterHasNoPlaceForIsRefused) {
  const auto refusal = [&](const char* cluster, const char* strategy) {
    const TempDir folder;
    RunConfig config = task_config(folder / "model", cluster, "worker");
    config.cluster.train_distribute = strategy;
    Estimator estimator(small_options(), config);
    return error_of([&] {
      train_and_evaluate(estimator, {training_input, 5}, {.input_fn = evaluation_input});
    });
  };
  EXPECT_THAT(refusal(R"({"chief": ["a:1"], "worker": ["b:1"]})", "ps"),
              AllOf(HasSubstr("train_distribute is ps"), HasSubstr("without ps tasks; add some")));
  EXPECT_THAT(refusal(R"({"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]})", "collective"),
              AllOf(HasSubstr("train_distribute is collective"), HasSubstr("leave out the ps")));
}

TEST(TrainAndEvaluate, UpdatesThatDoNotGoWithTheClusterAreRefused) {
  const char* with_ps = R"({"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]})";
  const char* without = R"({"chief": ["a:1"], "worker": ["b:1"]})";
  const TempDir folder;
  const auto refusal = [&](const char* cluster, ClusterConfig how) {
    RunConfig config = task_config(folder / "model", cluster, "worker");
    how.task = config.cluster.task;
    config.cluster = std::move(how);
    Estimator estimator(small_options(), config);
    return error_of([&] {
      train_and_evaluate(estimator, {training_input, 5}, {.input_fn = evaluation_input});
    });
  };
  EXPECT_THAT(refusal(without, {.sync = false}),
              AllOf(HasSubstr("sync is false"), HasSubstr("worker:0"), HasSubstr("without any")));
  EXPECT_THAT(refusal(with_ps, {.sync = false, .ps_log = true}), HasSubstr("ps_log is for steps"));
  EXPECT_THAT(refusal(with_ps, {.sync = false, .backup_replicas = 1}),
              HasSubstr("backup_replicas is for steps"));
  EXPECT_THAT(refusal(with_ps, {.max_staleness = 4}), HasSubstr("max_staleness is 4"));
  EXPECT_THAT(refusal(without, {.backup_replicas = 1}),
              AllOf(HasSubstr("backup_replicas is 1"), HasSubstr("without any")));
  EXPECT_THAT(refusal(with_ps, {.backup_replicas = 1, .ps_log = true}),
              HasSubstr("ps_log keeps steps of all replicas"));
}

/// All replicas of the run are here.
class OneTaskAlone final : public Strategy, RunMembership, GradientReduction {
 public:
  std::string describe() const override { return "one task alone"; }
  void attach(Participant& participant) override { participant_ = &participant; }
  RunMembership& membership() override { return *this; }
  GradientReduction& reduction() override { return *this; }

 private:
  RunContract join(const RunContract& own) override {
    all_ = {0, own.replicas};
    return own;
  }
  void synchronize() override {}
  ReplicaRange replicas() const override { return all_; }
  std::optional<StepResult> apply(std::int64_t step, PartialSums own) override {
    StepResult result = participant_->update(step, std::move(own));
    result.positions = participant_->positions();
    return result;
  }
  void end(std::int64_t, int) override {}
  int leave(bool) override { return 0; }

  ReplicaRange all_;
  Participant* participant_ = nullptr;
};

RunConfig master_config(const Path& folder) {
  RunConfig config = task_config(folder, R"({"master": ["a:1"], "worker": ["b:1"]})", "master");
  config.cluster.train_distribute = [](const RunConfig&) {
    return std::make_unique<OneTaskAlone>();
  };
  config.checkpoints.save_checkpoints_steps = 5;
  config.reproducibility.replicas = 2;
  return config;
}

/// Something that happens once in one thread, and that another waits for.
class Event {
 public:
  void happens() {
    std::call_once(once_, [this] { promise_.set_value(); });
  }
  void await() const { ASSERT_EQ(future_.wait_for(seconds(60)), std::future_status::ready); }

 private:
  std::once_flag once_;
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

class AfterStepHook : public Hook {
 public:
  AfterStepHook(std::int64_t step, std::function<void()> then)
      : step_(step), then_(std::move(then)) {}
  void after_run(Session& session) override {
    if (session.global_step() == step_) then_();
  }

 private:
  std::int64_t step_;
  std::function<void()> then_;
};

class EvaluationHook : public Hook {
 public:
  EvaluationHook(std::function<void()> at_begin, std::function<void()> at_end)
      : at_begin_(std::move(at_begin)), at_end_(std::move(at_end)) {}
  void begin(Session&) override { at_begin_(); }
  void end(Session&) override { at_end_(); }

 private:
  std::function<void()> at_begin_;
  std::function<void()> at_end_;
};

TEST(TrainAndEvaluate, AMasterEvaluatesBesideItsTrainingWithTheResultsOfOneProcess) {
  const TempDir folder;
  RunConfig alone = saving_each(5, folder / "alone");
  alone.reproducibility.replicas = 2;
  Estimator plain(small_options(), alone);
  plain.train(training_input, {.max_steps = 20});

  Estimator master(small_options(), master_config(folder / "master"));
  Event step_6, evaluated;
  auto exporter = std::make_shared<RecordingExporter>();
  const LogLines log;
  const auto result = train_and_evaluate(
      master,
      {.input_fn = training_input,
       .max_steps = 20,
       // Step 5 is evaluated when step 6 is made, and before step 7 is over.
       .hooks = {std::make_shared<AfterStepHook>(6, [&] { step_6.happens(); }),
                 std::make_shared<AfterStepHook>(7, [&] { evaluated.await(); })}},
      {.input_fn = evaluation_input,
       .hooks = {std::make_shared<EvaluationHook>([&] { step_6.await(); },
                                                  [&] { evaluated.happens(); })},
       .exporters = {exporter},
       .throttle_secs = seconds(3600)});
  EXPECT_EQ(latest_values(folder / "alone"), latest_values(folder / "master"));
  EXPECT_THAT(evaluated_steps(folder / "master"), ElementsAre(5, 20));
  EXPECT_EQ(result.metrics, plain.evaluate(evaluation_input));
  EXPECT_THAT(exporter->calls,
              ElementsAre("model.ckpt-5 step 5 early", "model.ckpt-20 step 20 final"));
  EXPECT_THAT(log.text(),
              HasSubstr("master:0 strategy: one task alone (RunConfig::cluster.train_distribute)"));
  EXPECT_EQ(log::task(), "");
}

TEST(TrainAndEvaluate, WhatFailsBesideTheTrainingOfAMasterIsThrownAtItsEnd) {
  const TempDir folder;
  Estimator master(small_options(), master_config(folder.path()));
  Event failed;
  const auto failing = [&, calls = std::make_shared<int>(0)](const InputContext& in) {
    // The first call gives the batch that the model is traced with.
    if (++*calls == 1) return evaluation_input(in);
    failed.happens();
    throw NotFound("the evaluation's file is gone");
  };
  EXPECT_THAT(error_of([&] {
                train_and_evaluate(
                    master,
                    {.input_fn = training_input,
                     .max_steps = 20,
                     .hooks = {std::make_shared<AfterStepHook>(7, [&] { failed.await(); })}},
                    {.input_fn = failing});
              }),
              HasSubstr("the evaluation's file is gone"));
  EXPECT_EQ(checkpoint_step(*master.latest_checkpoint()), 20);
}

RunConfig evaluator_config(const Path& folder) {
  return task_config(folder, R"({"chief": ["a:1"], "worker": ["b:1"]})", "evaluator");
}

TEST(TrainAndEvaluate, AnEvaluatorEndsWithTheCheckpointOfMaxSteps) {
  const TempDir folder;
  Estimator trained(small_options(), saving_each(4, folder.path()));
  trained.train(training_input, {.max_steps = 8});
  auto exporter = std::make_shared<RecordingExporter>();
  Estimator estimator(small_options(), evaluator_config(folder.path()));
  const auto result = train_and_evaluate(
      estimator, {training_input, 8},
      {.input_fn = evaluation_input, .exporters = {exporter}, .start_delay_secs = seconds(0)});
  EXPECT_EQ(result.metrics, trained.evaluate(evaluation_input));
  EXPECT_THAT(exporter->calls, ElementsAre("model.ckpt-8 step 8 final"));
}

TEST(TrainAndEvaluate, AnEvaluatorFollowsARunAndEndsWhenItsChiefSaysSo) {
  const TempDir folder;
  auto exporter = std::make_shared<RecordingExporter>();
  Event evaluated;
  TrainAndEvaluateResult result;
  // An earlier run has ended here: that does not count.
  write_run_note(folder.path(), {.began_ns = 1, .ended = true});
  std::jthread evaluator([&] {
    Estimator estimator(small_options(), evaluator_config(folder.path()));
    const EvalSpec spec{
        .input_fn = evaluation_input,
        .hooks = {std::make_shared<EvaluationHook>([] {}, [&] { evaluated.happens(); })},
        .exporters = {exporter},
        .start_delay_secs = seconds(0),
        .throttle_secs = seconds(3600)};
    result = train_and_evaluate(estimator, {.input_fn = training_input}, spec);
  });
  Estimator chief(small_options(), saving_each(5, folder.path()));
  write_run_note(folder.path(), {.began_ns = 2});
  chief.train(training_input, {.max_steps = 5, .handle_signals = false});
  evaluated.await();
  chief.train(training_input, {.max_steps = 12, .handle_signals = false});
  write_run_note(folder.path(), {.began_ns = 2, .ended = true, .global_step = 12});
  evaluator.join();
  EXPECT_EQ(result.metrics.at("global_step"), 12);
  EXPECT_EQ(exporter->calls.back(), "model.ckpt-12 step 12 final");
  EXPECT_EQ(evaluated_steps(folder.path()).back(), 12);
}

TEST(TrainAndEvaluate, AChiefSaysWhenItsRunIsOver) {
  const TempDir folder;
  Estimator estimator(small_options(),
                      task_config(folder.path(), R"({"chief": ["a:1"]})", "chief"));
  train_and_evaluate(estimator, {training_input, 3}, {.input_fn = evaluation_input});
  const auto note = read_run_note(folder.path());
  ASSERT_TRUE(note.has_value());
  EXPECT_TRUE(note->ended);
  EXPECT_EQ(note->global_step, 3);
}

TEST(TrainAndEvaluate, AChiefThatSavesNothingSaysOfNoStepThatItIsSaved) {
  const TempDir folder;
  RunConfig config = task_config(folder.path(), R"({"chief": ["a:1"]})", "chief");
  Estimator saves(small_options(), config);
  internal::train_as_task(saves, training_input, {.max_steps = 3});
  config.checkpoints.save_checkpoints = false;
  Estimator does_not(small_options(), config);
  EXPECT_EQ(internal::train_as_task(does_not, training_input, {.max_steps = 5}).global_step, 5);
  const auto note = read_run_note(folder.path());
  ASSERT_TRUE(note.has_value());
  EXPECT_TRUE(note->ended);
  EXPECT_EQ(note->global_step, 3);
}

// Where the evaluation would fail is found before a step is made: on its device.
TEST(TrainAndEvaluate, RehearsesTheEvaluationOnItsDevice) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.devices.names = {"cuda:99"};
  const Estimator estimator(small_options(), config);
  EXPECT_THAT(
      error_of([&] { internal::dry_run_evaluation(estimator, {.input_fn = evaluation_input}); }),
      AllOf(HasSubstr("cuda:99"), HasSubstr("looking at the evaluation before training begins")));
}

TEST(TrainAndEvaluate, AnEvaluatorWithoutCheckpointsGivesUpAndSaysWhatItMissed) {
  const TempDir folder;
  RunConfig config = evaluator_config(folder.path());
  config.cluster.session_creation_timeout_secs = seconds(1);
  Estimator estimator(small_options(), config);
  try {
    train_and_evaluate(estimator, {training_input, 5},
                       {.input_fn = evaluation_input, .start_delay_secs = seconds(0)});
    FAIL() << "it ended as if all were well";
  } catch (const Unavailable& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(folder.path().string()), HasSubstr("1 s"),
                                    HasSubstr("nothing was evaluated")));
  }
}

TEST(TrainAndEvaluate, ASignalWakesAnEvaluatorThatWaitsToBegin) {
  const TempDir folder;
  Estimator estimator(small_options(), evaluator_config(folder.path()));
  log::set_sink([](log::Level, std::string_view line) {
    if (line.find("Waiting 3600 secs before starting eval.") != line.npos) ::raise(SIGTERM);
  });
  EXPECT_THROW(
      train_and_evaluate(estimator, {training_input, 5},
                         {.input_fn = evaluation_input, .start_delay_secs = seconds(3600)}),
      Interrupted);
  log::set_sink({});
  StopSignals::reset();
}

TEST(TrainAndEvaluate, ASecondEvaluatorIsRefused) {
  const TempDir folder;
  RunConfig config = evaluator_config(folder.path());
  config.cluster.task.task.index = 1;
  Estimator estimator(small_options(), config);
  EXPECT_THAT(error_of([&] {
                train_and_evaluate(estimator, {training_input, 5}, {.input_fn = evaluation_input});
              }),
              HasSubstr("evaluator:1"));
}

TEST(TrainAndEvaluate, AClusterOfOneTaskIsOneProcess) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.cluster.task =
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
