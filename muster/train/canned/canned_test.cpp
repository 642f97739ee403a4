#include <gmock/gmock.h>
#include <torch/types.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/summary/event_reader.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/canned/canned.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using small_net::error_of;
using small_net::latest_values;
using small_net::quiet_config;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::TempDir;

// A label that depends on a pair of categories, which only the cross or the network can see, and on
// a number.
struct Row {
  std::int64_t a = 0;
  std::int64_t b = 0;
  float x = 0;
  std::int64_t label = 0;
};

Row row(std::int64_t number) {
  Random random(3, 0, static_cast<std::uint64_t>(number));
  Row result{.a = static_cast<std::int64_t>(random.uniform() * 6),
             .b = static_cast<std::int64_t>(random.uniform() * 6),
             .x = static_cast<float>(random.uniform(-1, 1))};
  result.label = ((result.a + result.b) % 2 == 0) == (result.x > -0.8F) ? 1 : 0;
  return result;
}

Batch collate_rows(std::span<const Row> rows) {
  std::vector<std::int64_t> a;
  std::vector<std::int64_t> b;
  std::vector<float> x;
  std::vector<std::int64_t> labels;
  for (const Row& one : rows) {
    a.push_back(one.a);
    b.push_back(one.b);
    x.push_back(one.x);
    labels.push_back(one.label);
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  return make_batch(Features{{"a", tensor_of(std::move(a), {count})},
                             {"b", tensor_of(std::move(b), {count})},
                             {"x", tensor_of(std::move(x), {count})}},
                    tensor_of(std::move(labels), {count, 1}));
}

Dataset<Batch> training_rows(const InputContext& in) {
  return range(200).shuffle(100, in.seed()).shard(in).repeat().map(row).batch(8, collate_rows);
}

Dataset<Batch> evaluation_rows(const InputContext&) {
  return range(120).map(row).batch(40, collate_rows);
}

struct SmallColumns {
  FeatureColumn a = categorical_column_with_identity("a", 6);
  FeatureColumn b = categorical_column_with_identity("b", 6);
  FeatureColumn x = numeric_column("x");
  FeatureColumnList wide{a, b, crossed_column({a, b}, 1000), bucketized_column(x, {-0.8F, 0.0F})};
  FeatureColumnList deep{embedding_column(a, 4), indicator_column(b), x};
};

Estimator small_estimator(RunConfig config) {
  const SmallColumns columns;
  return dnn_linear_combined_classifier({.linear_columns = columns.wide,
                                         .linear_optimizer = ftrl({.learning_rate = 0.5}),
                                         .dnn_columns = columns.deep,
                                         .dnn_optimizer = adagrad({.learning_rate = 0.1}),
                                         .hidden_units = {8, 4},
                                         .dropout = 0.1,
                                         .batch_norm = true},
                                        std::move(config));
}

FeatureColumn words(const std::string& key, std::vector<std::string> vocabulary) {
  return categorical_column_with_vocabulary_list(key, std::move(vocabulary));
}

std::vector<std::string> numbered(std::int64_t count) {
  std::vector<std::string> vocabulary;
  for (std::int64_t i = 0; i < count; ++i) vocabulary.push_back(std::to_string(i));
  return vocabulary;
}

// The seeds' columns with their sizes; the words do not matter here.
struct CensusColumns {
  FeatureColumn gender = words("gender", numbered(2));
  FeatureColumn race = words("race", numbered(5));
  FeatureColumn education = words("education", numbered(16));
  FeatureColumn marital_status = words("marital_status", numbered(7));
  FeatureColumn relationship = words("relationship", numbered(6));
  FeatureColumn workclass = words("workclass", numbered(9));
  FeatureColumn occupation = categorical_column_with_hash_bucket("occupation", 100);
  FeatureColumn native_country = categorical_column_with_hash_bucket("native_country", 100);
  FeatureColumn age = numeric_column("age");
  FeatureColumn age_buckets = bucketized_column(age, {18, 25, 30, 35, 40, 45, 50, 55, 60, 65});

  FeatureColumnList wide() const {
    return {crossed_column({"education", "occupation"}, 10'000),
            crossed_column({age_buckets, race, "occupation"}, 1'000'000),
            crossed_column({"native_country", "occupation"}, 10'000),
            gender,
            native_country,
            education,
            occupation,
            workclass,
            marital_status,
            relationship,
            age_buckets};
  }
  FeatureColumnList deep() const {
    FeatureColumnList columns{age, embedding_column(native_country, 8),
                              embedding_column(occupation, 8)};
    for (const auto* name : {"education_num", "capital_gain", "capital_loss", "hours_per_week"}) {
      columns.push_back(numeric_column(name));
    }
    for (const auto& column : {workclass, education, marital_status, gender, relationship, race}) {
      columns.push_back(indicator_column(column));
    }
    return columns;
  }
};

Dataset<Batch> canned_rows(const InputContext&) {
  return range(16).batch(8, [](std::span<const std::int64_t> numbers) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    Features features;
    for (const auto* name : {"gender", "race", "education", "marital_status", "relationship",
                             "workclass", "occupation", "native_country"}) {
      std::vector<std::string> values;
      for (const auto number : numbers) values.push_back(std::to_string(number % 2));
      features.add(name, StringColumn(std::move(values), {count}));
    }
    for (const auto* name :
         {"age", "education_num", "capital_gain", "capital_loss", "hours_per_week"}) {
      features.add(name, torch::arange(count, at::kInt));
    }
    std::vector<std::int64_t> labels;
    for (const auto number : numbers) labels.push_back(number % 2);
    return make_batch(std::move(features), tensor_of(std::move(labels), {count}));
  });
}

TEST(CannedEstimators, TheCensusModelHasTensorFlowsVariables) {
  const TempDir folder;
  const CensusColumns columns;
  Estimator estimator = dnn_linear_combined_classifier({.linear_columns = columns.wide(),
                                                        .dnn_columns = columns.deep(),
                                                        .hidden_units = {100, 70, 48, 34}},
                                                       quiet_config(folder.path()));
  estimator.train(canned_rows, {.steps = 1});
  const BundleReader bundle(*estimator.latest_checkpoint());
  std::map<std::string, std::int64_t> counts;
  for (const auto& name : bundle.names()) {
    if (name.ends_with("Adagrad") || name.find("/Ftrl") != std::string::npos) continue;
    std::int64_t count = 1;
    for (const auto size : bundle.spec(name).shape) count *= size;
    const bool embedding = name.ends_with("/embedding_weights");
    counts[embedding ? "embedding" : name.substr(0, name.find('/'))] += count;
  }
  EXPECT_EQ(counts["linear"], 1'020'252);
  EXPECT_EQ(counts["embedding"], 1'600);
  EXPECT_EQ(counts["dnn"], 18'879);
  using Shape = std::vector<std::int64_t>;
  const std::string input = "dnn/input_from_feature_columns/input_layer/";
  const std::map<std::string, Shape> shapes{
      {"linear/linear_model/age_bucketized_X_occupation_X_race/weights", {1'000'000, 1}},
      {"linear/linear_model/age_bucketized/weights", {11, 1}},
      {"linear/linear_model/bias_weights", {1}},
      {"linear/linear_model/gender/weights/Ftrl", {2, 1}},
      {"linear/linear_model/gender/weights/Ftrl_1", {2, 1}},
      {input + "native_country_embedding/embedding_weights", {100, 8}},
      {input + "occupation_embedding/embedding_weights/Adagrad", {100, 8}},
      {"dnn/hiddenlayer_0/kernel", {66, 100}},
      {"dnn/hiddenlayer_3/bias", {34}},
      {"dnn/logits/kernel", {34, 1}},
      {"dnn/logits/bias/Adagrad", {1}},
      {"global_step", {}}};
  for (const auto& [name, shape] : shapes) {
    ASSERT_TRUE(bundle.contains(name)) << name;
    EXPECT_EQ(bundle.spec(name).shape, shape) << name;
  }
}

// The names that begin so in the checkpoint that one step leaves.
std::set<std::string> names_after_a_step(Estimator estimator, std::string_view start) {
  estimator.train(training_rows, {.steps = 1});
  std::set<std::string> names;
  const BundleReader bundle(*estimator.latest_checkpoint());
  for (const auto& name : bundle.names()) {
    if (name.starts_with(start)) names.insert(name);
  }
  return names;
}

TEST(CannedEstimators, NameSlotsAsTensorFlowsDo) {
  using Names = std::set<std::string>;
  const TempDir folder;
  const SmallColumns columns;
  const auto config = [&](const char* name) { return quiet_config(folder / name); };
  EXPECT_EQ(
      names_after_a_step(
          dnn_classifier({.hidden_units = {4}, .feature_columns = columns.deep}, config("dnn")),
          "dnn/hiddenlayer_0/kernel"),
      (Names{"dnn/hiddenlayer_0/kernel", "dnn/hiddenlayer_0/kernel/t_0/Adagrad"}));
  EXPECT_EQ(names_after_a_step(
                dnn_classifier(
                    {.hidden_units = {4}, .feature_columns = columns.deep, .optimizer = "Adam"},
                    config("adam")),
                "dnn/head"),
            (Names{"dnn/head/beta1_power", "dnn/head/beta2_power"}));
  EXPECT_EQ(
      names_after_a_step(linear_classifier({.feature_columns = {columns.a}}, config("linear")),
                         "linear/linear_model/a"),
      (Names{"linear/linear_model/a/weights", "linear/linear_model/a/weights/part_0/Ftrl",
             "linear/linear_model/a/weights/part_0/Ftrl_1"}));
  EXPECT_EQ(names_after_a_step(baseline_classifier({}, config("baseline")), "baseline"),
            (Names{"baseline/bias", "baseline/bias/Ftrl", "baseline/bias/Ftrl_1"}));
  EXPECT_EQ(
      names_after_a_step(dnn_linear_combined_classifier({.linear_columns = {columns.a},
                                                         .linear_optimizer = "Adam",
                                                         .dnn_columns = columns.deep,
                                                         .dnn_optimizer = "Adam",
                                                         .hidden_units = {4}},
                                                        config("combined")),
                         "head"),
      (Names{"head/beta1_power", "head/beta1_power_1", "head/beta2_power", "head/beta2_power_1"}));
}

TEST(CannedEstimators, TrainWideAndDeepTogether) {
  const TempDir folder;
  Estimator estimator = small_estimator(quiet_config(folder.path()));
  estimator.train(training_rows, {.steps = 120});
  const EvaluationResult result = estimator.evaluate(evaluation_rows);
  EXPECT_GT(result.at("accuracy"), 0.85);
  // The loss is the sum over a batch, and all batches have 40 examples.
  EXPECT_NEAR(result.at("loss"), 40 * result.at("average_loss"), 1e-3);

  std::set<std::string> keys;
  const auto predicted = estimator.predict(evaluation_rows).next();
  for (const auto& column : *predicted) keys.insert(column.first);
  EXPECT_EQ(keys, (std::set<std::string>{"logits", "logistic", "probabilities", "class_ids",
                                         "classes", "all_class_ids", "all_classes"}));
}

TEST(CannedEstimators, ResumeToTheBit) {
  const TempDir folder;
  small_estimator(quiet_config(folder / "whole")).train(training_rows, {.max_steps = 31});
  for (const std::int64_t stop : {6, 26, 31}) {
    small_estimator(quiet_config(folder / "parts")).train(training_rows, {.max_steps = stop});
  }
  EXPECT_EQ(latest_values(folder / "whole"), latest_values(folder / "parts"));
}

TEST(CannedEstimators, ReplicasGiveTheSameBitsHoweverManyRunAtATime) {
  const TempDir folder;
  std::vector<std::map<std::string, std::string>> outcomes;
  for (const int concurrent : {1, 2, 4}) {
    RunConfig config = quiet_config(folder / std::to_string(concurrent));
    config.reproducibility.replicas = 4;
    config.devices.concurrent_replicas = concurrent;
    small_estimator(config).train(training_rows, {.max_steps = 10});
    outcomes.push_back(latest_values(config.model_dir));
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
  EXPECT_EQ(outcomes[0], outcomes[2]);
}

TEST(CannedEstimators, AStepChangesTheRowsOfItsBatchAndNoOthers) {
  for (const char* optimizer : {"Ftrl", "Adagrad", "Adam", "RMSProp", "SGD"}) {
    const TempDir folder;
    RunConfig config = quiet_config(folder.path());
    config.reproducibility.replicas = 2;
    const auto one = categorical_column_with_identity("one", 100);
    Estimator estimator = dnn_linear_combined_classifier({.linear_columns = {one},
                                                          .linear_optimizer = optimizer,
                                                          .dnn_columns = {embedding_column(one, 3)},
                                                          .dnn_optimizer = optimizer,
                                                          .hidden_units = {4}},
                                                         config);
    const auto input = [](const InputContext& in) {
      return range(40).shard(in).repeat().batch(4, [](std::span<const std::int64_t> numbers) {
        std::vector<std::int64_t> ids;
        std::vector<std::int64_t> labels;
        for (const auto number : numbers) {
          ids.push_back(10 + number % 7);
          labels.push_back(number % 7 < 3 ? 1 : 0);
        }
        const auto count = static_cast<std::int64_t>(ids.size());
        return make_batch(Features{{"one", tensor_of(std::move(ids), {count})}},
                          tensor_of(std::move(labels), {count}));
      });
    };
    estimator.train(input, {.max_steps = 1});
    std::map<std::string, at::Tensor> before;
    for (const auto& name : estimator.get_variable_names()) {
      if (name.find("/one") == std::string::npos) continue;
      before[name] = estimator.get_variable_value(name);
    }
    EXPECT_GE(before.size(), 2u);
    estimator.train(input, {.max_steps = 4});
    for (const auto& [name, value] : before) {
      const at::Tensor changed =
          (estimator.get_variable_value(name) != value).any(1).nonzero().view({-1});
      ASSERT_GT(changed.numel(), 0) << optimizer << " " << name;
      EXPECT_GE(changed.min().item<std::int64_t>(), 10) << optimizer << " " << name;
      EXPECT_LE(changed.max().item<std::int64_t>(), 16) << optimizer << " " << name;
    }
  }
}

TEST(CannedEstimators, HaveTheSeedsDefaultRates) {
  const TempDir folder;
  const RunConfig config = quiet_config(folder.path());
  const SmallColumns columns;
  const FeatureColumnList many = [] {
    FeatureColumnList list;
    for (int i = 0; i < 100; ++i) list.push_back(numeric_column(std::to_string(i)));
    return list;
  }();
  const auto rates = [](const Estimator& estimator) {
    std::map<std::string, std::string> found;
    for (const auto& entry : estimator.options().optimizer) {
      found[entry.prefix] = fmt::format("{:g} {}", entry.optimizer.learning_rate().at(0),
                                        entry.optimizer.description().substr(0, 4));
    }
    return found;
  };
  using Rates = std::map<std::string, std::string>;
  EXPECT_EQ(rates(linear_classifier({.feature_columns = many}, config)), (Rates{{"", "0.2 ftrl"}}));
  EXPECT_EQ(rates(linear_regressor({.feature_columns = many, .optimizer = {}}, config)),
            (Rates{{"", "0.1 ftrl"}}));
  EXPECT_EQ(rates(dnn_classifier({.hidden_units = {2}, .feature_columns = columns.deep}, config)),
            (Rates{{"", "0.05 adag"}}));
  EXPECT_EQ(
      rates(dnn_regressor(
          {.hidden_units = {2}, .feature_columns = columns.deep, .optimizer = "Adam"}, config)),
      (Rates{{"", "0.05 adam"}}));
  EXPECT_EQ(rates(baseline_classifier({}, config)), (Rates{{"", "0.3 ftrl"}}));
  EXPECT_EQ(rates(dnn_linear_combined_classifier(
                {.linear_columns = columns.wide, .dnn_columns = columns.deep, .hidden_units = {2}},
                config)),
            (Rates{{"linear", "0.005 ftrl"}, {"dnn", "0.001 adag"}}));
  EXPECT_EQ(rates(dnn_linear_combined_regressor(
                {.dnn_columns = columns.deep, .hidden_units = {2}, .label_dimension = 2}, config)),
            (Rates{{"dnn", "0.001 adag"}}));
}

TEST(CannedEstimators, SayWhatIsMissing) {
  const TempDir folder;
  const RunConfig config = quiet_config(folder.path());
  const SmallColumns columns;
  EXPECT_THAT(error_of([&] { dnn_linear_combined_classifier({}, config); }),
              HasSubstr("either linear_columns or dnn_columns"));
  EXPECT_THAT(
      error_of([&] { dnn_linear_combined_classifier({.dnn_columns = columns.deep}, config); }),
      HasSubstr("hidden_units"));
  EXPECT_THAT(error_of([&] { dnn_classifier({.feature_columns = columns.deep}, config); }),
              HasSubstr("hidden_units"));
  EXPECT_THAT(error_of([&] { linear_classifier({}, config); }), HasSubstr("feature_columns"));
  EXPECT_THAT(error_of([&] {
                linear_classifier({.feature_columns = columns.wide, .n_classes = 1}, config);
              }),
              HasSubstr("n_classes"));
  EXPECT_THAT(error_of([&] {
                dnn_classifier({.hidden_units = {2}, .feature_columns = columns.wide}, config);
              }),
              HasSubstr("indicator"));
  EXPECT_THAT(error_of([&] {
                linear_classifier({.feature_columns = columns.wide, .optimizer = "Nadam"}, config);
              }),
              HasSubstr("Nadam"));
}

TEST(CannedEstimators, TheBaselineLearnsHowOftenEachClassComes) {
  const TempDir folder;
  Estimator estimator = baseline_classifier({.loss_reduction = Reduction::kSumOverBatchSize},
                                            quiet_config(folder.path()));
  estimator.train(evaluation_rows, {.steps = 3});
  const EvaluationResult result = estimator.evaluate(evaluation_rows);
  EXPECT_NEAR(result.at("prediction/mean"), result.at("label/mean"), 0.1);
  EXPECT_EQ(estimator.get_variable_value("baseline/bias").numel(), 1);
  const auto predicted =
      estimator.predict(evaluation_rows, {.yield_single_examples = false}).next();
  EXPECT_EQ(predicted->tensor("logits").size(0), 40);
}

TEST(CannedEstimators, RegressorsFitNumbers) {
  const auto input = [](const InputContext&) {
    return range(64).repeat().map(row).batch(16, [](std::span<const Row> rows) {
      Batch batch = collate_rows(rows);
      const at::Tensor x = batch.features.tensor("x").unsqueeze(1);
      const at::Tensor a = batch.features.tensor("a").unsqueeze(1);
      return make_batch(batch.features, torch::cat({3 * x, 0.5 * a}, 1).to(at::kFloat));
    });
  };
  const TempDir folder;
  const SmallColumns columns;
  const EvaluateOptions four{.steps = 4};
  Estimator linear =
      linear_regressor({.feature_columns = {columns.a, columns.x}, .label_dimension = 2},
                       quiet_config(folder / "linear"));
  linear.train(input, {.steps = 150});
  EXPECT_LT(linear.evaluate(input, four).at("average_loss"), 0.02);
  Estimator deep = dnn_regressor({.hidden_units = {16},
                                  .feature_columns = {indicator_column(columns.a), columns.x},
                                  .label_dimension = 2,
                                  .optimizer = adam({.learning_rate = 0.02})},
                                 quiet_config(folder / "deep"));
  deep.train(input, {.steps = 150});
  EXPECT_LT(deep.evaluate(input, four).at("average_loss"), 0.1);
  EXPECT_EQ(deep.predict(input).next()->tensor("predictions").size(1), 2);
}

TEST(CannedEstimators, RefuseWhatOnlyTheOtherOfAPairHas) {
  const RunConfig config;
  EXPECT_THAT(error_of([&] { baseline_classifier({.label_dimension = 2}, config); }),
              HasSubstr("label_dimension is 2, but only regressors have one"));
  EXPECT_THAT(error_of([&] { baseline_regressor({.n_classes = 3}, config); }),
              HasSubstr("n_classes is given, but only classifiers have one"));
  EXPECT_THAT(error_of([&] {
                dnn_regressor({.hidden_units = {4},
                               .feature_columns = {numeric_column("x")},
                               .label_vocabulary = {"a", "b"}},
                              config);
              }),
              HasSubstr("label_vocabulary is given"));
}

TEST(CannedEstimators, LoadTheTablesThatColumnsNameACheckpointFor) {
  const TempDir folder;
  const SmallColumns columns;
  Estimator first =
      dnn_classifier({.hidden_units = {4}, .feature_columns = {embedding_column(columns.a, 3)}},
                     quiet_config(folder / "first"));
  first.train(training_rows, {.steps = 3});
  const std::string prefix = "dnn/input_from_feature_columns/input_layer/";
  const std::string name = prefix + "a_embedding/embedding_weights";
  for (const bool trainable : {false, true}) {
    const auto loaded = embedding_column(columns.b, 3,
                                         {.checkpoint_to_load_from = folder / "first",
                                          .tensor_name_in_checkpoint = name,
                                          .trainable = trainable});
    Estimator second =
        dnn_linear_combined_classifier({.dnn_columns = {loaded, columns.x},
                                        .dnn_optimizer = sgd({.learning_rate = 0.0}),
                                        .hidden_units = {4}},
                                       quiet_config(folder / std::to_string(trainable)));
    second.train(training_rows, {.steps = 2});
    EXPECT_TRUE(at::equal(second.get_variable_value(prefix + "b_embedding/embedding_weights"),
                          first.get_variable_value(name)));
  }
}

TEST(CannedEstimators, WriteTheSeedsSummaries) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.save_summary_steps = 2;
  small_estimator(config).train(training_rows, {.steps = 2});
  std::set<std::string> tags;
  EventReader events(folder.path());
  while (const auto event = events.next()) {
    if (const auto* summary = std::get_if<Summary>(&event->what)) {
      for (const auto& value : *summary) tags.insert(value.tag);
    }
  }
  EXPECT_THAT(tags, IsSupersetOf({"dnn/hiddenlayer_0/fraction_of_zero_values",
                                  "dnn/hiddenlayer_1/activation", "dnn/logits/activation",
                                  "linear/activation", "linear/bias",
                                  "linear/fraction_of_zero_weights", "loss", "average_loss"}));
}

}  // namespace
}  // namespace muster
