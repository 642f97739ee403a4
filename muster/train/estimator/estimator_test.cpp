#include "muster/train/estimator/estimator.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/folder_claim.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/features/collate.h"
#include "muster/data/summary/event_reader.h"
#include "muster/nn/kernels/cpu_bfloat16.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/model.h"
#include "muster/platform/cluster/process_environment.h"
#include "muster/testing/message_of.h"
#include "muster/testing/small_disk.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/predictor.h"
#include "muster/train/estimator/small_net_internal.h"
#include "muster/train/hooks/fake_session_internal.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header

TEST(Estimator, TrainsEvaluatesAndPredicts) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  const TrainResult trained = estimator.train(training_input, {.max_steps = 150});
  EXPECT_EQ(trained.global_step, 150);
  EXPECT_EQ(trained.steps, 150);
  const EvaluationResult result = estimator.evaluate(evaluation_input);
  EXPECT_GT(result.at("accuracy"), 0.7);
  EXPECT_EQ(result.at("global_step"), 150);
  EXPECT_TRUE(std::filesystem::exists(folder / "eval/metrics.jsonl"));

  Predictions predictions =
      estimator.predict(evaluation_input, {.predict_keys = {"probabilities", "class_ids"}});
  std::int64_t count = 0;
  std::int64_t right = 0;
  while (const auto row = predictions.next()) {
    EXPECT_EQ(row->batch_size(), 1);
    right += row->tensor("class_ids").item<std::int64_t>() == example(count).label ? 1 : 0;
    ++count;
  }
  EXPECT_EQ(count, 120);
  EXPECT_NEAR(static_cast<double>(right) / 120, result.at("accuracy"), 1e-6);
}

TEST(Estimator, LogsTheLinesThatReadersOfTfEstimatorLookFor) {
  const TempDir folder;
  const testing::LogLines log;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  estimator.train(training_input, {.max_steps = 2});
  estimator.evaluate(evaluation_input, {.steps = 1});
  const std::string all = fmt::format("{}", fmt::join(log.lines, "\n"));
  std::size_t place = 0;
  for (const std::string& line :
       {fmt::format("Using config: {{'_model_dir': '{}', '_tf_random_seed': 5, ",
                    folder.path().string()),
        std::string("Create CheckpointSaverHook."), std::string("Saving checkpoints for 2 into"),
        std::string("Starting evaluation at"),
        fmt::format("Restoring parameters from {}/model.ckpt-2", folder.path().string()),
        std::string("Finished evaluation at")}) {
    place = all.find(line, place);
    ASSERT_NE(place, std::string::npos) << line << " in:\n" << all;
  }
}

TEST(Estimator, SaysOnceWhyBfloat16IsSlowOnThisProcessor) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.reproducibility.precision = ComputeType::kBfloat16;
  config.devices.names = {"cpu"};
  const testing::LogLines log;
  Estimator estimator(small_options(), config);
  for (int i = 0; i < 2; ++i) estimator.train(training_input, {.steps = 1});
  const std::string obstacle = kernels::bfloat16_obstacle(kernels::cpu_bfloat16());
  const auto warns = HasSubstr("precision bfloat16 on the CPU: " + obstacle);
  EXPECT_THAT(log.lines, ::testing::Contains(warns).Times(obstacle.empty() ? 0 : 1));
}

TEST(Estimator, ResumesToTheBit) {
  const TempDir folder;
  Estimator(small_options(), quiet_config(folder / "whole"))
      .train(training_input, {.max_steps = 41});
  for (const std::int64_t stop : {7, 19, 26, 41}) {  // 25 steps are an epoch.
    Estimator(small_options(), quiet_config(folder / "parts"))
        .train(training_input, {.max_steps = stop});
  }
  EXPECT_EQ(latest_values(folder / "whole"), latest_values(folder / "parts"));
}

TEST(Estimator, ReplicasGiveTheSameBitsHoweverManyRunAtATime) {
  const TempDir folder;
  std::vector<std::map<std::string, std::string>> outcomes;
  for (const int concurrent : {1, 2, 4}) {
    RunConfig config = quiet_config(folder / std::to_string(concurrent));
    config.reproducibility.replicas = 4;
    config.devices.concurrent_replicas = concurrent;
    Estimator(small_options(), config).train(training_input, {.max_steps = 12});
    outcomes.push_back(latest_values(config.model_dir));
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
  EXPECT_EQ(outcomes[0], outcomes[2]);
  RunConfig one = quiet_config(folder / "one");
  Estimator(small_options(), one).train(training_input, {.max_steps = 12});
  EXPECT_NE(outcomes[0], latest_values(one.model_dir));
}

TEST(Estimator, ResumesReplicasToTheBitAndRemembersTheirNumber) {
  const TempDir folder;
  RunConfig config = quiet_config(folder / "whole");
  config.reproducibility.replicas = 3;
  Estimator(small_options(), config).train(training_input, {.max_steps = 20});
  config.model_dir = folder / "parts";
  Estimator(small_options(), config).train(training_input, {.max_steps = 9});
  config.reproducibility.replicas = 0;
  config.devices.concurrent_replicas = 2;
  Estimator(small_options(), config).train(training_input, {.max_steps = 20});
  EXPECT_EQ(latest_values(folder / "whole"), latest_values(folder / "parts"));
}

TEST(Estimator, KeepsTensorFlowsNamesAndShapesInCheckpoints) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  estimator.train(training_input, {.max_steps = 1});
  const BundleReader bundle(*estimator.latest_checkpoint());
  EXPECT_EQ(bundle.spec("logits/kernel").shape, (std::vector<std::int64_t>{16, kClasses}));
  EXPECT_EQ(bundle.spec("logits/kernel/Adam_1").shape, (std::vector<std::int64_t>{16, kClasses}));
  EXPECT_TRUE(bundle.contains("norm/moving_mean"));
  EXPECT_TRUE(bundle.contains("norm/gamma"));
  EXPECT_TRUE(bundle.contains("beta1_power"));
  EXPECT_EQ(estimator.get_variable_value("global_step").item<std::int64_t>(), 1);
}

TEST(Estimator, DoesNothingWhenTheStepsAreDone) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  estimator.train(training_input, {.max_steps = 5});
  EXPECT_EQ(estimator.train(training_input, {.max_steps = 5}).steps, 0);
  EXPECT_EQ(estimator.train(training_input, {.steps = 3}).global_step, 8);
  EXPECT_THROW(estimator.train(training_input, {.steps = 3, .max_steps = 9}), InvalidArgument);
}

TEST(Estimator, EndsWithTheInputAndSavesItsLastStep) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  const auto finite = [](const InputContext& in) {
    return range(40).shard(in).map(example).batch(8, collate_examples);
  };
  EXPECT_EQ(estimator.train(finite).steps, 5);
  EXPECT_EQ(checkpoint_step(*estimator.latest_checkpoint()), 5);
}

/// Saves step 4, and then the disk is full.
class FullDiskHook : public Hook {
 public:
  void after_run(Session& session) override {
    if (session.global_step() != 4) return;
    // For a listener, because that waits until the checkpoint is whole.
    session.save_checkpoint({std::make_shared<CheckpointSaverListener>()});
    disk.emplace(1000);
  }
  std::optional<testing::SmallDisk> disk;
};

/// The steps whose checkpoints it was told are whole.
class SavedSteps : public CheckpointSaverListener {
 public:
  bool after_save(Session&, std::int64_t step) override { return steps.push_back(step), false; }
  std::vector<std::int64_t> steps;
};

// By period and at the end, in the background and for a listener who waits.
TEST(Estimator, ALastStepThatCannotBeSavedIsAnErrorThatNamesIt) {
  for (const std::int64_t period : {3, 5}) {
    for (const bool listens : {false, true}) {
      const TempDir folder;
      RunConfig config = quiet_config(folder.path());
      config.checkpoints.save_checkpoints_steps = period;
      const auto full = std::make_shared<FullDiskHook>();
      TrainOptions options{.max_steps = 5, .hooks = {full}};
      const auto saved = std::make_shared<SavedSteps>();
      if (listens) options.saving_listeners = {saved};
      const std::string text =
          error_of([&] { Estimator(small_options(), config).train(training_input, options); });
      full->disk.reset();
      EXPECT_THAT(text, HasSubstr("the last step, 5, is not saved"));
      EXPECT_THAT(text, HasSubstr("it resumes from"));
      EXPECT_EQ(checkpoint_step(*latest_checkpoint(folder.path())), 4);
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr("ckpt-5")));
      }
      EXPECT_THAT(saved->steps, ::testing::Not(::testing::Contains(5)));
    }
  }
}

TEST(Estimator, TriesOnceMoreToSaveTheLastStep) {
  for (const std::int64_t period : {3, 5}) {
    const TempDir folder;
    RunConfig config = quiet_config(folder.path());
    config.checkpoints.save_checkpoints_steps = period;
    const auto full = std::make_shared<FullDiskHook>();
    const auto saved = std::make_shared<SavedSteps>();
    log::set_sink(
        [&](log::Level, std::string_view line) {  // There is room after the first failure.
          if (line.find("could not save") != std::string_view::npos) full->disk.reset();
        });
    const TrainOptions options{.max_steps = 5, .hooks = {full}, .saving_listeners = {saved}};
    const TrainResult result = Estimator(small_options(), config).train(training_input, options);
    log::set_sink({});
    EXPECT_EQ(result.global_step, 5);
    EXPECT_EQ(checkpoint_step(*latest_checkpoint(folder.path())), 5);
    EXPECT_NO_THROW(BundleReader(*latest_checkpoint(folder.path())).verify());
    EXPECT_EQ(saved->steps.back(), 5);
  }
}

TEST(Estimator, DoesNotTrainWhereAnotherTrains) {
  const TempDir folder;
  const FolderClaim other(folder.path());
  EXPECT_THAT(testing::message_of([&] {
                Estimator(small_options(), quiet_config(folder.path()))
                    .train(training_input, {.max_steps = 1});
              }),
              HasSubstr("another process writes to " + folder.path().string()));
}

TEST(Estimator, WithoutACheckpointEvaluationSaysWhatToDo) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  EXPECT_THROW(estimator.evaluate(evaluation_input), NotFound);
  EXPECT_THAT(error_of([&] { estimator.predict(evaluation_input); }), HasSubstr("train first"));
}

TEST(Estimator, DoesNotTrainAloneAsOneOfSeveralRanks) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.cluster.task = read_task_environment(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}});
  Estimator estimator(small_options(), config);
  EXPECT_THAT(error_of([&] { estimator.train(training_input, {.max_steps = 1}); }),
              HasSubstr("RANK makes this task worker:0 of a cluster"));
}

struct OtherNet : Model {
  OtherNet() { logits = register_module("hidden", std::make_shared<Dense>(kInputs, kClasses)); }
  torch::Tensor forward(const Features& x) override { return logits->forward(x.tensor("x")); }
  std::shared_ptr<Dense> logits;
};

TEST(Estimator, AnotherShapeInTheCheckpointNamesTheVariableAndBothShapes) {
  const TempDir folder;
  Estimator(small_options(), quiet_config(folder.path())).train(training_input, {.max_steps = 1});
  EstimatorOptions other = small_options();
  other.model = [] { return std::make_shared<OtherNet>(); };
  const std::string text = error_of([&] {
    Estimator(other, quiet_config(folder.path())).train(training_input, {.max_steps = 2});
  });
  EXPECT_THAT(text, HasSubstr("hidden/kernel"));
  EXPECT_THAT(text, HasSubstr("[8, 16]"));
  EXPECT_THAT(text, HasSubstr("[8, 3]"));
}

TEST(Estimator, AMissingFeatureListsTheOnesThatAreThere) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  const auto input = [](const InputContext&) {
    return range(8).map(example).batch(8, [](std::span<const Example> examples) {
      Batch batch = collate_examples(examples);
      return make_batch(Features{{"pixels", batch.features.tensor("x")}},
                        batch.labels.tensor(kLabel));
    });
  };
  const std::string text = error_of([&] { estimator.train(input); });
  EXPECT_THAT(text, HasSubstr("pixels"));
  EXPECT_THAT(text, HasSubstr("step 1"));
}

// Batch 5 of the stream has an infinite value.
Dataset<Batch> poisoned_input(const InputContext&) {
  return range(80).map(example).batch(8, [](std::span<const Example> examples) {
    Batch batch = collate_examples(examples);
    if (examples[0].x == example(40).x)
      batch.features.tensor("x").fill_(std::numeric_limits<float>::quiet_NaN());
    return batch;
  });
}

TEST(NanPolicy, StopsWithTheStepNamed) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  const std::string text = error_of([&] { estimator.train(poisoned_input); });
  EXPECT_THAT(text, HasSubstr("loss of step 6"));
}

TEST(NanPolicy, AFailureRightAfterASaveLeavesThatCheckpointWhole) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.checkpoints.save_checkpoints_steps = 1;
  EXPECT_THROW(Estimator(small_options(), config).train(poisoned_input), Aborted);
  const Path latest = *latest_checkpoint(folder.path());
  EXPECT_EQ(checkpoint_step(latest), 5);
  EXPECT_NO_THROW(BundleReader(latest).verify());
}

TEST(NanPolicy, SkipsTheBatchAndGoesOn) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.nan_policy.action = NanPolicy::Action::kSkipBatch;
  Estimator estimator(options, quiet_config(folder.path()));
  EXPECT_EQ(estimator.train(poisoned_input).steps, 9);
  EXPECT_TRUE(std::isfinite(estimator.evaluate(evaluation_input).at("loss")));
}

TEST(NanPolicy, RollsBackToTheLastCheckpointAndLeavesTheBatchOut) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.nan_policy.action = NanPolicy::Action::kRollBack;
  RunConfig config = quiet_config(folder.path());
  config.checkpoints.save_checkpoints_steps = 3;
  Estimator estimator(options, config);
  EXPECT_EQ(estimator.train(poisoned_input).steps, 9);
}

// Batches 4, 5 and 7 of the stream have values that are not finite.
Dataset<Batch> often_poisoned_input(const InputContext&) {
  return range(80).map(example).batch(8, [](std::span<const Example> examples) {
    Batch batch = collate_examples(examples);
    for (const int first : {32, 40, 56}) {
      if (examples[0].x == example(first).x)
        batch.features.tensor("x").fill_(std::numeric_limits<float>::quiet_NaN());
    }
    return batch;
  });
}

TEST(NanPolicy, RollsBackPastBadBatchesThatItKnows) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.nan_policy = {.action = NanPolicy::Action::kRollBack, .limit = 3};
  Estimator estimator(options, quiet_config(folder.path()));
  EXPECT_EQ(estimator.train(often_poisoned_input).steps, 7);
}

/// Damages the checkpoint that the run began with, when it has made a step.
class DamagesTheFirstCheckpoint : public Hook {
 public:
  void after_run(Session& session) override {
    const Path data = session.output_dir() / "model.ckpt-3.data-00000-of-00001";
    if (session.global_step() != 4 || is_done_) return;
    testing::flip_byte(data, 10);
    is_done_ = true;
  }

 private:
  bool is_done_ = false;
};

// Which batches are bad is told by their number in the input, also where it is older than the run.
TEST(NanPolicy, RollsBackBehindTheCheckpointThatItBeganWith) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.nan_policy = {.action = NanPolicy::Action::kRollBack, .limit = 3};
  RunConfig config = quiet_config(folder.path());
  for (const std::int64_t step : {2, 3}) {
    Estimator(options, config).train(often_poisoned_input, {.max_steps = step});
  }
  const TrainResult result =
      Estimator(options, config)
          .train(often_poisoned_input, {.hooks = {std::make_shared<DamagesTheFirstCheckpoint>()}});
  // Ten batches, of which three are bad.
  EXPECT_EQ(result.global_step, 7);
}

Batch numbers_of(std::span<const std::int64_t> numbers) {
  std::vector<float> x;
  for (const std::int64_t number : numbers) {
    x.insert(x.end(), kInputs, number == 21 ? std::numeric_limits<float>::infinity() : 1.0F);
  }
  const auto rows = static_cast<std::int64_t>(numbers.size());
  return make_batch({{"x", tensor_of(std::move(x), {rows, kInputs})}},
                    torch::zeros({rows, 1}, torch::kLong));
}

TEST(NanPolicy, NamesTheFeatureAndTheElementBeforeTheLearningRate) {
  const TempDir folder;
  const auto input = [](const InputContext& in) {
    return range(40).shuffle(10, 3).shard(in).batch(4, numbers_of).prefetch(1);
  };
  RunConfig config = quiet_config(folder.path());
  config.reproducibility.replicas = 2;
  const std::string message = error_of([&] { Estimator(small_options(), config).train(input); });
  EXPECT_THAT(message,
              HasSubstr("is not finite, since the feature \"x\" of replica 1 is inf in row"));
  EXPECT_THAT(message, HasSubstr("of its batch, which is range element 21"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("learning rate")));
}

TEST(Summaries, HaveTheLossOfAllReplicas) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.reproducibility.replicas = 3;
  config.save_summary_steps = 1;
  const auto trained = Estimator(small_options(), config).train(training_input, {.max_steps = 1});
  std::optional<double> written;
  EventReader reader(folder.path());
  while (const auto event = reader.next()) {
    const auto* summary = std::get_if<Summary>(&event->what);
    if (summary == nullptr) continue;
    for (const SummaryValue& value : *summary) {
      if (value.tag == "loss") written = scalar_of(value);
    }
  }
  ASSERT_TRUE(written && trained.loss);
  EXPECT_FLOAT_EQ(static_cast<float>(*written), static_cast<float>(*trained.loss));
}

TEST(NanPolicy, EndsAfterItsLimit) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.nan_policy = {.action = NanPolicy::Action::kSkipBatch, .limit = 0};
  EXPECT_THROW(Estimator(options, quiet_config(folder.path())).train(poisoned_input), Aborted);
}

/// By step of a checkpoint, the last loss that readers of the event files see when it is saved.
class LossesAtSaves : public CheckpointSaverListener {
 public:
  bool after_save(Session& session, std::int64_t step) override {
    if (step == 0) return false;  // There is no event yet, and no file.
    EventReader reader(session.output_dir());
    while (const auto event = reader.next()) {
      const auto* summary = std::get_if<Summary>(&event->what);
      if (summary != nullptr && !summary->empty()) last[step] = event->step;
    }
    return false;
  }
  std::map<std::int64_t, std::int64_t> last;
};

TEST(Checkpoints, AreSavedAfterTheSummariesOfTheirSteps) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.checkpoints.save_checkpoints_steps = 2;
  config.save_summary_steps = 1;
  const auto losses = std::make_shared<LossesAtSaves>();
  Estimator(small_options(), config)
      .train(training_input, {.max_steps = 4, .saving_listeners = {losses}});
  EXPECT_EQ(losses->last, (std::map<std::int64_t, std::int64_t>{{2, 2}, {4, 4}}));
}

// As of a process that was killed when the checkpoint was there, and what it was made of too.
TEST(Checkpoints, OfTheLastStepLeaveNothingBehindWhenTheRunIsStartedAgain) {
  const TempDir folder;
  const RunConfig config = quiet_config(folder.path());
  Estimator(small_options(), config).train(training_input, {.max_steps = 3});
  const Path left = folder / ".model.ckpt-3.tmp-1-0";
  std::filesystem::create_directories(left / "part");
  EXPECT_EQ(Estimator(small_options(), config).train(training_input, {.max_steps = 3}).steps, 0);
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST(Checkpoints, AreGoneOnFromWithoutTheFileThatNamesThem) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  Estimator(small_options(), config).train(training_input, {.max_steps = 4});
  std::filesystem::remove(folder / "checkpoint");
  EXPECT_EQ(Estimator(small_options(), config).train(training_input, {.max_steps = 6}).steps, 2);
}

TEST(Checkpoints, WithAStateOfAnotherStepAreNotGoneOnFrom) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.checkpoints.save_checkpoints_steps = 2;
  Estimator(small_options(), config).train(training_input, {.max_steps = 4});
  std::filesystem::copy_file(folder / "model.ckpt-2.state.json", folder / "model.ckpt-4.state.json",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(Estimator(small_options(), config).train(training_input, {.max_steps = 6}).steps, 4);
}

TEST(MovingAverages, AreWhatEvaluationUses) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.moving_average = MovingAverageOptions{.decay = 0.5};
  Estimator estimator(options, quiet_config(folder.path()));
  estimator.train(training_input, {.max_steps = 10});
  const double averaged = estimator.evaluate(evaluation_input).at("loss");
  EstimatorOptions plain = small_options();
  const double last =
      Estimator(plain, quiet_config(folder.path())).evaluate(evaluation_input).at("loss");
  EXPECT_NE(averaged, last);
}

TEST(Bfloat16, TrainsAndKeepsFloat32Variables) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.reproducibility.precision = ComputeType::kBfloat16;
  Estimator estimator(small_options(), config);
  EXPECT_TRUE(std::isfinite(*estimator.train(training_input, {.max_steps = 5}).loss));
  EXPECT_EQ(estimator.get_variable_value("hidden/kernel").scalar_type(), at::kFloat);
}

TEST(Predictor, AnswersAsTheEstimatorDoes) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.devices.names = {"cpu"};  // As the predictor's.
  Estimator estimator(small_options(), config);
  estimator.train(training_input, {.max_steps = 5});
  const Predictor predictor(small_options(), folder.path());
  EXPECT_EQ(predictor.global_step(), 5);
  auto batch = evaluation_input(InputContext(Mode::kPredict, 1, 0, 0)).iterate()->next();
  const Features ours = predictor.predict(batch->features, {"logits"});
  const auto theirs =
      estimator
          .predict(evaluation_input, {.predict_keys = {"logits"}, .yield_single_examples = false})
          .next();
  EXPECT_TRUE(torch::equal(ours.tensor("logits"), theirs->tensor("logits")));
  EXPECT_THAT(error_of([&] { predictor.predict(batch->features, {"classes_"}); }),
              HasSubstr("logits"));
}

}  // namespace
}  // namespace muster
