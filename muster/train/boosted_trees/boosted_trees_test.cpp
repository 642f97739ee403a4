#include "muster/train/boosted_trees/boosted_trees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/features/collate.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/boosted_trees/boosted_trees_training_internal.h"
#include "muster/train/estimator/early_stopping.h"
#include "muster/train/estimator/eval_metrics.h"
#include "muster/train/estimator/in_memory_evaluator_hook.h"
#include "muster/train/estimator/predictor.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using small_net::error_of;
using small_net::quiet_config;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;

struct Person {
  float age = 0;
  std::string color;
  float weight = 1;
  float label = 0;
};

Person person(std::int64_t number) {
  Random random(3, 0, static_cast<std::uint64_t>(number));
  static const std::vector<std::string> colors{"red", "green", "blue"};
  Person one{.age = static_cast<float>(random.uniform(0, 100)),
             .color = colors[static_cast<std::size_t>(number) % 3]};
  one.label = one.age > (one.color == "red" ? 30 : 70) ? 1 : 0;
  one.weight = one.label > 0 ? 3 : 1;
  return one;
}

Batch batch_of(std::span<const Person> people) {
  std::vector<float> ages;
  std::vector<std::string> colors;
  std::vector<float> weights;
  std::vector<float> labels;
  for (const auto& one : people) {
    ages.push_back(one.age);
    colors.push_back(one.color);
    weights.push_back(one.weight);
    labels.push_back(one.label);
  }
  const auto rows = static_cast<std::int64_t>(people.size());
  return make_batch(Features{{"age", tensor_of(std::move(ages), {rows, 1})},
                             {"color", StringColumn(std::move(colors), {rows, 1})},
                             {"weight", tensor_of(std::move(weights), {rows})},
                             {"nothing", at::zeros({rows, 1})}},
                    tensor_of(std::move(labels), {rows, 1}));
}

Dataset<Batch> people(const InputContext&) { return range(300).map(person).batch(50, batch_of); }

FeatureColumnList people_columns() {
  return {
      numeric_column("age"),
      indicator_column(categorical_column_with_vocabulary_list("color", {"red", "green", "blue"})),
      numeric_column("nothing")};
}

BoostedTreesOptions people_options() {
  return {.feature_columns = people_columns(),
          .n_trees = 12,
          .max_depth = 3,
          .learning_rate = 0.5,
          .l2_regularization = 1};
}

std::string trees_of(const Path& folder) {
  return BundleReader(*latest_checkpoint(folder)).read_strings("boosted_trees/model").at(0);
}

/// Keeps the loss of every step.
class LossHook : public Hook {
 public:
  void after_run(Session& session) override { losses.push_back(session.loss()); }
  std::vector<double> losses;
};

double first_loss(Estimator estimator, const InputFn& input) {
  const auto hook = std::make_shared<LossHook>();
  estimator.train(input, {.steps = 1, .hooks = {hook}});
  return hook->losses.at(0);
}

// One feature `x` in [rows, 1] and labels, in one batch.
InputFn numbers(std::vector<float> x, std::vector<float> labels) {
  return [=](const InputContext&) {
    const auto rows = static_cast<std::int64_t>(x.size());
    return range(1).map([=](std::int64_t) {
      return make_batch(Features{{"x", tensor_of(std::vector<float>(x), {rows, 1})}},
                        tensor_of(std::vector<float>(labels), {rows, 1}));
    });
  };
}

TEST(BoostedTreesClassifier, TrainsEvaluatesAndPredictsLikeAnyEstimator) {
  const TempDir folder;
  Estimator estimator = boosted_trees_classifier(people_options(), quiet_config(folder.path()));
  const TrainResult trained = estimator.train(people, {.max_steps = 1000});
  EXPECT_EQ(trained.global_step, 12);  // The trees are all there.
  const EvaluationResult result = estimator.evaluate(people);
  EXPECT_GT(result.at("accuracy"), 0.98);
  EXPECT_GT(result.at("auc"), 0.99);
  EXPECT_EQ(result.at("global_step"), 12);
  EXPECT_LT(result.at("loss"), *trained.loss);
  EXPECT_TRUE(std::filesystem::exists(folder / "eval/metrics.jsonl"));

  Predictions predictions = estimator.predict(people, {.predict_keys = {"class_ids"}});
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < 300; ++i) {
    const auto row = predictions.next();
    const bool positive = row->tensor("class_ids").item<std::int64_t>() == 1;
    right += positive == (person(i).label > 0) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(right) / 300, result.at("accuracy"), 1e-6);
  const Predictor predictor(estimator.options(), folder.path());
  EXPECT_EQ(predictor.global_step(), 12);
}

TEST(BoostedTreesClassifier, EndsAtMaxStepsAndForGoodWithItsTrees) {
  const TempDir folder;
  Estimator estimator = boosted_trees_classifier(people_options(), quiet_config(folder.path()));
  EXPECT_EQ(estimator.train(people, {.max_steps = 5}).global_step, 5);
  EXPECT_EQ(estimator.train(people, {.steps = 3}).global_step, 8);
  EXPECT_EQ(estimator.train(people).steps, 4);
  EXPECT_EQ(estimator.train(people, {.steps = 3}).steps, 0);
}

TEST(BoostedTreesClassifier, ResumesToTheBit) {
  const TempDir folder;
  BoostedTreesOptions options = people_options();
  options.center_bias = true;
  boosted_trees_classifier(options, quiet_config(folder / "whole")).train(people);
  for (const std::int64_t stop : {1, 4, 9, 12}) {
    boosted_trees_classifier(options, quiet_config(folder / "parts"))
        .train(people, {.max_steps = stop});
  }
  EXPECT_EQ(trees_of(folder / "whole"), trees_of(folder / "parts"));
  options.learning_rate = 0.4;
  boosted_trees_classifier(options, quiet_config(folder / "other")).train(people);
  EXPECT_NE(trees_of(folder / "whole"), trees_of(folder / "other"));
}

TEST(BoostedTreesClassifier, GrowsTheSameTreesWithAnyNumberOfThreads) {
  // Weights from e^-8 to e^8, whose sums would depend on the order.
  const auto input = [](const InputContext&) {
    return range(9000)
        .map([](std::int64_t number) {
          Person one = person(number);
          Random random(4, 0, static_cast<std::uint64_t>(number));
          one.weight = static_cast<float>(std::exp(random.uniform(-8, 8)));
          if (random.uniform(0, 1) < 0.2) one.label = 1 - one.label;
          return one;
        })
        .batch(1000, batch_of);
  };
  const TempDir folder;
  BoostedTreesOptions options = people_options();
  options.weight_column = "weight";
  options.max_depth = 6;
  std::set<std::string> trees;
  for (const int threads : {1, 2, 3}) {
    RunConfig config = quiet_config(folder / std::to_string(threads));
    config.reproducibility.threads_per_replica = threads;
    boosted_trees_classifier(options, config).train(input);
    trees.insert(trees_of(config.model_dir));
  }
  EXPECT_EQ(trees.size(), 1);
}

TEST(RoundForExactSums, MakesSumsIndependentOfTheirOrder) {
  std::vector<float> values;
  Random random(4, 0, 0);
  for (int i = 0; i < 5000; ++i) {
    values.push_back(static_cast<float>(random.normal() * std::exp(random.uniform(-20, 8))));
  }
  const auto forward = [&] { return std::accumulate(values.begin(), values.end(), 0.0); };
  const auto backward = [&] { return std::accumulate(values.rbegin(), values.rend(), 0.0); };
  ASSERT_NE(forward(), backward());
  const double before = forward();
  internal::round_for_exact_sums(values);
  EXPECT_EQ(forward(), backward());
  EXPECT_NEAR(forward(), before, std::abs(before) * 1e-9);
}

TEST(BoostedTreesClassifier, CallsHooksAndListenersAndKeepsTheFolderLikeAnyEstimator) {
  class Listener : public CheckpointSaverListener {
   public:
    bool after_save(Session&, std::int64_t step) override {
      steps.push_back(step);
      return false;
    }
    std::vector<std::int64_t> steps;
  };
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.checkpoints.save_checkpoints_steps = 5;
  config.checkpoints.keep_checkpoint_max = 2;
  config.save_summary_steps = 1;
  const auto listener = std::make_shared<Listener>();
  const auto hook = std::make_shared<LossHook>();
  boosted_trees_classifier(people_options(), config)
      .train(people, {.hooks = {hook}, .saving_listeners = {listener}});
  EXPECT_THAT(listener->steps, ElementsAre(0, 5, 10, 12));
  ASSERT_EQ(hook->losses.size(), 12);
  EXPECT_NEAR(hook->losses[0], std::log(2), 1e-6);
  for (std::size_t i = 1; i < 12; ++i) EXPECT_LT(hook->losses[i], hook->losses[i - 1]);
  const auto kept = list_checkpoints(folder.path());
  ASSERT_EQ(kept.size(), 2);
  EXPECT_EQ(checkpoint_step(kept[0]), 10);
  EXPECT_NEAR(read_eval_metric(folder.path(), "loss").at(1), std::log(2), 1e-6);
  EXPECT_EQ(read_eval_metric(folder.path(), "learning_rate").at(12), 0.5);
}

TEST(BoostedTreesClassifier, StopsEarlyWhenAnEvaluationIsGoodEnough) {
  class Evaluating : public CheckpointSaverListener {
   public:
    explicit Evaluating(Estimator estimator) : estimator_(std::move(estimator)) {}
    bool after_save(Session&, std::int64_t step) override {
      if (step > 0) estimator_.evaluate(people);
      return false;
    }

   private:
    Estimator estimator_;
  };
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.checkpoints.save_checkpoints_steps = 1;
  Estimator estimator = boosted_trees_classifier(people_options(), config);
  const HookPtr stop = stop_if_higher("accuracy", 0.9, {.period = {.run_every_steps = 1}});
  const TrainResult trained = estimator.train(
      people, {.hooks = {stop}, .saving_listeners = {std::make_shared<Evaluating>(estimator)}});
  EXPECT_LT(trained.global_step, 12);
  EXPECT_GT(estimator.evaluate(people).at("accuracy"), 0.9);
}

TEST(BoostedTreesClassifier, IsNotEvaluatedInMemoryWithTreesOfAnOlderCheckpoint) {
  const TempDir folder;
  Estimator estimator = boosted_trees_classifier(people_options(), quiet_config(folder.path()));
  estimator.train(people, {.steps = 2});
  estimator.evaluate(people);
  const auto hook = std::make_shared<InMemoryEvaluatorHook>(estimator, people);
  EXPECT_THROW(estimator.train(people, {.steps = 2, .hooks = {hook}}), Unimplemented);
}

TEST(BoostedTreesClassifier, ReadsSoManyBatchesOfAnInputThatRepeats) {
  const TempDir folder;
  const auto repeating = [](const InputContext&) {
    return range(300).repeat().map(person).batch(50, batch_of);
  };
  BoostedTreesOptions options = people_options();
  options.max_input_bytes = 100'000;
  const std::string text = error_of([&] {
    boosted_trees_classifier(options, quiet_config(folder / "endless")).train(repeating);
  });
  EXPECT_THAT(text, HasSubstr("leave repeat() out"));
  EXPECT_THAT(text, HasSubstr("n_batches_per_layer"));
  options.n_batches_per_layer = 6;
  boosted_trees_classifier(options, quiet_config(folder / "six")).train(repeating);
  boosted_trees_classifier(people_options(), quiet_config(folder / "one")).train(people);
  EXPECT_EQ(trees_of(folder / "six"), trees_of(folder / "one"));
}

TEST(BoostedTreesClassifier, BeginsFromTheWeightedMeanLabelIfAsked) {
  const TempDir folder;
  BoostedTreesOptions options = people_options();
  options.weight_column = "weight";
  double positive = 0;
  double all = 0;
  for (std::int64_t i = 0; i < 300; ++i) {
    all += person(i).weight;
    positive += person(i).weight * person(i).label;
  }
  const double p = positive / all;
  const double entropy = -(p * std::log(p) + (1 - p) * std::log(1 - p));
  EXPECT_NEAR(first_loss(boosted_trees_classifier(options, quiet_config(folder / "zero")), people),
              all / 300 * std::log(2), 1e-5);
  options.center_bias = true;
  EXPECT_NEAR(first_loss(boosted_trees_classifier(options, quiet_config(folder / "mean")), people),
              all / 300 * entropy, 1e-5);
}

TEST(BoostedTreesClassifier, TakesWordsAsLabels) {
  const TempDir folder;
  const auto words = [](const InputContext&) {
    return range(300).map(person).batch(50, [](std::span<const Person> some) {
      std::vector<std::string> labels;
      for (const auto& one : some) labels.emplace_back(one.label > 0 ? "yes" : "no");
      const auto rows = static_cast<std::int64_t>(some.size());
      return make_batch(batch_of(some).features, StringColumn(std::move(labels), {rows, 1}));
    });
  };
  BoostedTreesOptions options = people_options();
  options.label_vocabulary = {"no", "yes"};
  boosted_trees_classifier(options, quiet_config(folder / "words")).train(words);
  boosted_trees_classifier(people_options(), quiet_config(folder / "numbers")).train(people);
  EXPECT_EQ(trees_of(folder / "words"), trees_of(folder / "numbers"));
}

TEST(BoostedTreesClassifier, PrunesWhileOrAfterATreeGrows) {
  // Which of a and b are equal: the first split gains next to nothing, the second everything.
  const auto input = [](const InputContext&) {
    return range(1).map([](std::int64_t) {
      std::vector<float> a;
      std::vector<float> b;
      std::vector<float> labels;
      for (int i = 0; i < 103; ++i) {
        a.push_back(static_cast<float>(i % 2));
        b.push_back(static_cast<float>(i / 2 % 2));
        labels.push_back(a.back() == b.back() ? 1.0F : 0.0F);
      }
      return make_batch(Features{{"a", tensor_of(std::move(a), {103, 1})},
                                 {"b", tensor_of(std::move(b), {103, 1})}},
                        tensor_of(std::move(labels), {103, 1}));
    });
  };
  const TempDir folder;
  BoostedTreesOptions options{.feature_columns = {numeric_column("a"), numeric_column("b")},
                              .n_trees = 3,
                              .max_depth = 2,
                              .tree_complexity = 5};
  std::map<PruningMode, double> accuracy;
  for (const auto mode : {PruningMode::kPre, PruningMode::kPost}) {
    options.pruning_mode = mode;
    RunConfig config = quiet_config(folder / (mode == PruningMode::kPre ? "pre" : "post"));
    Estimator estimator = boosted_trees_classifier(options, config);
    estimator.train(input);
    accuracy[mode] = estimator.evaluate(input).at("accuracy");
  }
  EXPECT_LT(accuracy[PruningMode::kPre], 0.6);
  EXPECT_EQ(accuracy[PruningMode::kPost], 1.0);
}

TEST(BoostedTreesClassifier, TheOrderOfBucketsCounts) {
  std::vector<float> x;
  std::vector<float> labels;
  for (int i = 0; i < 80; ++i) {
    x.push_back(static_cast<float>(i % 8) + 0.5F);
    labels.push_back(x.back() > 4 ? 1.0F : 0.0F);
  }
  const TempDir folder;
  Estimator estimator = boosted_trees_classifier(
      {.feature_columns = {bucketized_column(numeric_column("x"), {1, 2, 3, 4, 5, 6, 7})},
       .n_trees = 1,
       .max_depth = 1},
      quiet_config(folder.path()));
  estimator.train(numbers(x, labels));
  EXPECT_EQ(estimator.evaluate(numbers(x, labels)).at("accuracy"), 1.0);
}

TEST(BoostedTreesClassifier, LearnsWhatAMissingNumberMeans) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{none, 0, 1, none, 0, 1, none, 0, 1, none, 0, 1};
  const std::vector<float> labels{1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0};
  const TempDir folder;
  Estimator estimator = boosted_trees_classifier(
      {.feature_columns = {numeric_column("x")}, .n_trees = 3}, quiet_config(folder.path()));
  estimator.train(numbers(x, labels));
  EXPECT_EQ(estimator.evaluate(numbers(x, labels)).at("accuracy"), 1.0);
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_THAT(error_of([&] { estimator.evaluate(numbers({infinite}, {1})); }),
              HasSubstr("the column x is infinite in row 0"));
}

TEST(BoostedTreesRegressor, FitsNumbersFromTheirMean) {
  std::vector<float> x;
  std::vector<float> labels;
  double mean = 0;
  for (int i = 0; i < 100; ++i) {
    x.push_back(static_cast<float>(i));
    labels.push_back(1000.0F + static_cast<float>(i / 10));
    mean += labels.back() / 100;
  }
  double variance = 0;
  for (const float label : labels) variance += (label - mean) * (label - mean) / 100;
  const TempDir folder;
  BoostedTreesOptions options{.feature_columns = {numeric_column("x")},
                              .n_trees = 20,
                              .max_depth = 4,
                              .learning_rate = 0.5,
                              .center_bias = true};
  Estimator estimator = boosted_trees_regressor(options, quiet_config(folder.path()));
  EXPECT_NEAR(first_loss(estimator, numbers(x, labels)), variance, 1e-3);
  estimator.train(numbers(x, labels));
  const EvaluationResult result = estimator.evaluate(numbers(x, labels));
  EXPECT_LT(result.at("average_loss"), 0.01);
  EXPECT_NEAR(result.at("prediction/mean"), mean, 1e-3);
}

TEST(BoostedTrees, TellWhichColumnsMatter) {
  const TempDir folder;
  Estimator estimator = boosted_trees_classifier(people_options(), quiet_config(folder.path()));
  EXPECT_THROW(feature_importances(estimator), NotFound);
  estimator.train(people);
  const auto importances = feature_importances(estimator, {.normalize = true});
  ASSERT_EQ(importances.size(), 3);
  EXPECT_EQ(importances[0].column, "age");
  EXPECT_EQ(importances[1].column, "color_indicator");
  EXPECT_GT(importances[1].gain, 0.02);
  EXPECT_EQ(importances[2].gain, 0);
  EXPECT_NEAR(importances[0].gain + importances[1].gain, 1, 1e-6);
  Estimator other(small_net::small_options(), quiet_config(folder / "net"));
  EXPECT_THROW(feature_importances(other), InvalidArgument);
}

TEST(BoostedTrees, TellHowColumnsMoveEachLogit) {
  const TempDir folder;
  Estimator estimator = boosted_trees_classifier(people_options(), quiet_config(folder.path()));
  estimator.train(people);
  std::vector<Person> some{{.age = 50, .color = "red"}, {.age = 50, .color = "blue"}};
  const Features features = batch_of(some).features;
  const auto contributions = directional_contributions(estimator, features);
  at::Tensor sum = contributions.bias;
  for (const auto& [name, value] : contributions.columns) {
    sum = sum + contributions.columns.tensor(name);
  }
  const at::Tensor logits =
      Predictor(estimator.options(), folder.path()).predict(features).tensor("logits");
  EXPECT_TRUE(at::allclose(sum, logits.squeeze(1), 1e-4, 1e-4));
  const at::Tensor color = contributions.columns.tensor("color_indicator");
  EXPECT_GT(color[0].item<float>(), 0.5);
  EXPECT_LT(color[1].item<float>(), 0);
  EXPECT_EQ(contributions.columns.tensor("nothing").abs().sum().item<float>(), 0);
}

// The people by age, in three classes.
Dataset<Batch> people_by_age(const InputContext&) {
  return range(300).map(person).batch(50, [](std::span<const Person> people) {
    std::vector<std::int64_t> classes;
    for (const auto& one : people) classes.push_back(one.age < 30 ? 0 : one.age < 70 ? 1 : 2);
    const auto rows = static_cast<std::int64_t>(people.size());
    return make_batch(batch_of(people).features, tensor_of(std::move(classes), {rows, 1}));
  });
}

TEST(BoostedTreesClassifier, TellsSeveralClassesApart) {
  const TempDir folder;
  BoostedTreesOptions options = people_options();
  options.n_classes = 3;
  Estimator estimator = boosted_trees_classifier(options, quiet_config(folder / "whole"));
  EXPECT_EQ(estimator.train(people_by_age).global_step, 12);
  EXPECT_GT(estimator.evaluate(people_by_age).at("accuracy"), 0.98);
  const Features features = batch_of(std::vector{person(0), person(1)}).features;
  const Predictor predictor(estimator.options(), folder / "whole");
  const auto answers = predictor.predict(features);
  EXPECT_EQ(answers.tensor("probabilities").sizes(), at::IntArrayRef({2, 3}));

  // The bias and what columns contribute sum to the logit of each class.
  const auto contributions = directional_contributions(estimator, features);
  at::Tensor sum = contributions.bias;
  for (const auto& [name, value] : contributions.columns) {
    sum = sum + contributions.columns.tensor(name);
  }
  EXPECT_TRUE(at::allclose(sum, answers.tensor("logits"), 1e-4, 1e-4));

  Estimator parts = boosted_trees_classifier(options, quiet_config(folder / "parts"));
  parts.train(people_by_age, {.max_steps = 5});
  parts.train(people_by_age);
  EXPECT_EQ(trees_of(folder / "whole"), trees_of(folder / "parts"));
}

TEST(BoostedTreesRegressor, RisesWithAColumnIfItMust) {
  std::vector<float> x;
  std::vector<float> labels;
  for (int i = 0; i < 100; ++i) {
    x.push_back(static_cast<float>(i));
    labels.push_back(static_cast<float>(i + (i % 10 < 5 ? 20 : -20)));
  }
  const auto falls = [&](std::map<std::string, int> constraints) {
    const TempDir folder;
    Estimator estimator = boosted_trees_regressor({.feature_columns = {numeric_column("x")},
                                                   .n_trees = 10,
                                                   .learning_rate = 0.5,
                                                   .monotone_constraints = std::move(constraints)},
                                                  quiet_config(folder.path()));
    estimator.train(numbers(x, labels));
    const Predictor predictor(estimator.options(), folder.path());
    const at::Tensor found = predictor.predict({{"x", tensor_of(std::vector<float>(x), {100, 1})}})
                                 .tensor("predictions");
    const auto steps = found.narrow(0, 1, 99) - found.narrow(0, 0, 99);
    return (steps < 0).sum().item<std::int64_t>();
  };
  EXPECT_GT(falls({}), 5);
  EXPECT_EQ(falls({{"x", 1}}), 0);
}

TEST(BoostedTrees, RefuseColumnsThatTreesCannotRead) {
  const auto color = categorical_column_with_hash_bucket("color", 10);
  const auto refusal = [&](FeatureColumnList columns) {
    return error_of([&] { boosted_trees_classifier({.feature_columns = std::move(columns)}, {}); });
  };
  EXPECT_THAT(refusal({embedding_column(color, 4)}), HasSubstr("instead of color_embedding"));
  EXPECT_THAT(refusal({color}), HasSubstr("color is categorical: wrap it in an indicator_column"));
  EXPECT_THAT(refusal({sequence_numeric_column("x")}), HasSubstr("x is a sequence"));
  EXPECT_THAT(refusal({numeric_column("x"), numeric_column("x")}), HasSubstr("named x"));
  EXPECT_THAT(refusal({}), HasSubstr("feature_columns is empty"));
}

TEST(BoostedTrees, RefuseOptionsThatCannotWork) {
  const auto refusal = [](auto change) {
    BoostedTreesOptions options = people_options();
    change(options);
    return error_of([&] { boosted_trees_classifier(options, {}); });
  };
  using Options = BoostedTreesOptions;
  EXPECT_THAT(refusal([](Options& o) { o.tree_complexity = 1; }), HasSubstr("set pruning_mode"));
  EXPECT_THAT(refusal([](Options& o) { o.pruning_mode = PruningMode::kPost; }),
              HasSubstr("pruning needs a positive tree_complexity"));
  EXPECT_THAT(refusal([](Options& o) { o.n_trees = 0; }), HasSubstr("n_trees must be positive: 0"));
  EXPECT_THAT(refusal([](Options& o) { o.n_classes = 1; }), HasSubstr("n_classes is 1"));
  EXPECT_THAT(refusal([](Options& o) {
                o.n_classes = 3;
                o.center_bias = true;
              }),
              HasSubstr("center_bias is for one logit"));
  EXPECT_THAT(refusal([](Options& o) {
                o.n_classes = 3;
                o.monotone_constraints = {{"age", 1}};
              }),
              HasSubstr("monotone_constraints are for one logit"));
  EXPECT_THAT(refusal([](Options& o) {
                o.monotone_constraints = {{"size", 1}};
              }),
              HasSubstr("\"size\", which is none of feature_columns"));
  EXPECT_THAT(refusal([](Options& o) {
                o.monotone_constraints = {{"color_indicator", 1}};
              }),
              HasSubstr("which is 3 numbers"));
  EXPECT_THAT(refusal([](Options& o) {
                o.monotone_constraints = {{"age", 2}};
              }),
              HasSubstr("must be 1 or -1: 2"));
  EXPECT_THAT(refusal([](Options& o) { o.label_dimension = 2; }),
              HasSubstr("label_dimension is 2"));
  EXPECT_THAT(refusal([](Options& o) { o.l2_regularization = -1; }),
              HasSubstr("l2_regularization must be 0 or more: -1"));
  EXPECT_THAT(refusal([](Options& o) { o.quantile_sketch_epsilon = 1; }),
              HasSubstr("quantile_sketch_epsilon"));
  EXPECT_THAT(error_of([] {
                boosted_trees_regressor(
                    {.feature_columns = people_columns(), .label_vocabulary = {"a"}}, {});
              }),
              HasSubstr("no use for label_vocabulary"));
}

TEST(BoostedTrees, AreTrainedByOneProcess) {
  RunConfig cluster;
  cluster.cluster.task.cluster =
      ClusterSpec({{"chief", {{0, "a:1"}}}, {"worker", {{0, "b:1"}, {1, "c:1"}}}});
  cluster.cluster.task.task = {.type = "worker", .index = 1};
  const std::string text = error_of([&] { boosted_trees_classifier(people_options(), cluster); });
  EXPECT_THAT(text, HasSubstr("worker:1 of a cluster of 3"));
  RunConfig replicas;
  replicas.reproducibility.replicas = 2;
  EXPECT_THROW(boosted_trees_classifier(people_options(), replicas), InvalidArgument);
}

TEST(BoostedTrees, ACheckpointOfOtherColumnsNamesThem) {
  const TempDir folder;
  boosted_trees_classifier(people_options(), quiet_config(folder.path())).train(people);
  BoostedTreesOptions other = people_options();
  other.feature_columns = {numeric_column("age")};
  const std::string text = error_of(
      [&] { boosted_trees_classifier(other, quiet_config(folder.path())).evaluate(people); });
  EXPECT_THAT(text, HasSubstr("age[1], color_indicator[3], nothing[1]"));
  EXPECT_THAT(text, HasSubstr("feature_columns are age[1];"));
}

// The Census data as it comes, one row a line.
constexpr std::array kCensusNames{"age",           "workclass",      "fnlwgt",       "education",
                                  "education_num", "marital",        "occupation",   "relationship",
                                  "race",          "gender",         "capital_gain", "capital_loss",
                                  "hours",         "native_country", "income"};
using CensusRow = std::vector<std::string>;

std::vector<CensusRow> census_rows(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<CensusRow> rows;
  for (std::string line; std::getline(in, line);) {
    std::stringstream fields(line);
    CensusRow row;
    for (std::string field; std::getline(fields, field, ',');) row.push_back(field);
    if (row.size() == kCensusNames.size()) rows.push_back(std::move(row));
  }
  return rows;
}

bool is_number(std::size_t column) {
  return std::set<std::size_t>{0, 2, 4, 10, 11, 12}.contains(column);
}

InputFn census_input(std::vector<CensusRow> rows) {
  return [rows = std::move(rows)](const InputContext&) {
    return range(1).map([&rows](std::int64_t) {
      const auto size = static_cast<std::int64_t>(rows.size());
      Features features;
      std::vector<float> labels;
      for (const auto& row : rows) labels.push_back(row.back() == ">50K" ? 1.0F : 0.0F);
      for (std::size_t i = 0; i + 1 < kCensusNames.size(); ++i) {
        std::vector<std::string> words;
        std::vector<float> values;
        for (const auto& row : rows) {
          if (is_number(i)) {
            values.push_back(std::stof(row[i]));
          } else {
            words.push_back(row[i]);
          }
        }
        if (is_number(i)) {
          features.add(kCensusNames[i], tensor_of(std::move(values), {size, 1}));
        } else {
          features.add(kCensusNames[i], StringColumn(std::move(words), {size, 1}));
        }
      }
      return make_batch(std::move(features), tensor_of(std::move(labels), {size, 1}));
    });
  };
}

FeatureColumnList census_columns(const std::vector<CensusRow>& rows) {
  FeatureColumnList columns;
  for (std::size_t i = 0; i + 1 < kCensusNames.size(); ++i) {
    if (is_number(i)) {
      if (i != 2) columns.push_back(numeric_column(kCensusNames[i]));
      continue;
    }
    std::set<std::string> words;
    for (const auto& row : rows) words.insert(row[i]);
    columns.push_back(indicator_column(categorical_column_with_vocabulary_list(
        kCensusNames[i], std::vector<std::string>(words.begin(), words.end()))));
  }
  return columns;
}

TEST(BoostedTreesClassifier, ReachesItsTargetOnTheRealCensus) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto training = census_rows(data / "census/adult.data.csv");
  const TempDir folder;
  Estimator estimator = boosted_trees_classifier({.feature_columns = census_columns(training),
                                                  .n_trees = 300,
                                                  .l2_regularization = 1,
                                                  .min_node_weight = 1,
                                                  .quantile_sketch_epsilon = 1.0 / 256},
                                                 quiet_config(folder.path()));
  estimator.train(census_input(training));
  const auto result = estimator.evaluate(census_input(census_rows(data / "census/adult.test.csv")));
  EXPECT_DOUBLE_EQ(result.at("label/mean"), 3846.0 / 16281);
  EXPECT_GE(result.at("accuracy"), 0.870);
  EXPECT_GE(result.at("auc"), 0.925);
}

}  // namespace
}  // namespace muster
