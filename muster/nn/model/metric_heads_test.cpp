#include "muster/nn/model/metric_heads.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/nn/model/metrics.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

std::vector<std::string> keys_of(const MetricSet& metrics) {
  std::vector<std::string> keys;
  for (const auto& entry : metrics.compute()) keys.push_back(entry.first);
  return keys;
}

// Four examples, two of each city; the first of Bern is wrong.
Batch of_cities() {
  return make_batch(
      {{"city", StringColumn(std::vector<std::string>{"Bern", "Basel", "Bern", "Basel"}, {4})},
       {"rooms", torch::tensor({3, 4, 3, 3})},
       {"price", torch::tensor({1.5F, 2.5F, 3.5F, 4.5F})},
       {"words", StringColumn::ragged({"a", "b", "c"}, {0, 0, 1, 2, 3}, nullptr)},
       {"w", torch::tensor({1.0F, 1.0F, 3.0F, 1.0F})}},
      torch::tensor({1, 1, 0, 0}));
}

at::Tensor logits_of_cities() { return torch::tensor({{-1.0F}, {1.0F}, {-2.0F}, {-0.5F}}); }

TEST(WithMetrics, AddsWhatTheFunctionMakes) {
  const auto head =
      with_metrics(binary_class_head({.weight_column = "w"}), [](const EvaluatedBatch& batch) {
        MetricSet set;
        set.add("mean_price", Mean()).update(batch.features.tensor("price"), batch.weights);
        set.add("share", Accuracy())
            .update(batch.labels.tensor(kLabel), batch.predictions.tensor("class_ids"));
        return set;
      });
  const auto spec = head->spec(of_cities(), Mode::kEval, logits_of_cities());
  EXPECT_NEAR(spec.metrics.at("mean_price").compute(), (1.5 + 2.5 + 3 * 3.5 + 4.5) / 6, 1e-6);
  EXPECT_DOUBLE_EQ(spec.metrics.at("share").compute(), 0.75);
  EXPECT_DOUBLE_EQ(spec.metrics.at("accuracy").compute(), 5.0 / 6);
}

TEST(WithMetrics, LeavesTheRestOfTheHeadAsItIs) {
  const auto plain = binary_class_head({.name = "click"});
  const auto head = with_slices(with_detailed_metrics(plain), {"city"});
  EXPECT_EQ(head->name(), "click");
  EXPECT_EQ(head->logits_dimension(), 1);
  EXPECT_EQ(head->export_outputs().size(), plain->export_outputs().size());
  const Batch batch{.features = of_cities().features,
                    .labels = {{"click", torch::tensor({1, 1, 0, 0})}}};
  const auto train = head->spec(batch, Mode::kTrain, logits_of_cities());
  EXPECT_EQ(train.loss.item<float>(),
            plain->spec(batch, Mode::kTrain, logits_of_cities()).loss.item<float>());
  EXPECT_TRUE(train.metrics.empty());
  EXPECT_THROW(head->check_labels({{"click", torch::tensor({2})}}), InvalidArgument);
}

TEST(WithMetrics, RefusesATakenNameAndNoHead) {
  const auto again = with_metrics(binary_class_head(), [](const EvaluatedBatch&) {
    MetricSet set;
    set.add("auc", Mean());
    return set;
  });
  EXPECT_THROW(again->spec(of_cities(), Mode::kEval, logits_of_cities()), AlreadyExists);
  EXPECT_THAT(message_of([] { with_detailed_metrics(nullptr); }),
              HasSubstr("with_detailed_metrics needs a head"));
  EXPECT_THROW(with_metrics(binary_class_head(), {}), InvalidArgument);
  EXPECT_THROW(with_slices(binary_class_head(), {}), InvalidArgument);
}

TEST(WithSlices, HasTheMetricsOfEachValueOfAColumn) {
  const auto head = with_slices(binary_class_head(), {"city", "rooms"});
  const auto metrics = head->spec(of_cities(), Mode::kEval, logits_of_cities()).metrics.compute();
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 0.75);
  EXPECT_DOUBLE_EQ(metrics.at("accuracy/city=Bern"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("accuracy/city=Basel"), 1);
  EXPECT_DOUBLE_EQ(metrics.at("recall/rooms=3"), 0);
  EXPECT_DOUBLE_EQ(metrics.at("recall/rooms=4"), 1);
  EXPECT_EQ(metrics.size(), 9U * 5);
}

TEST(WithSlices, WeighsAndDescribesTheExamplesOfASlice) {
  const auto head =
      with_slices(with_metrics(binary_class_head({.weight_column = "w"}),
                               [](const EvaluatedBatch& batch) {
                                 MetricSet set;
                                 const auto words = batch.features.strings("words").values().size();
                                 set.add("words", Mean()).update(static_cast<double>(words));
                                 return set;
                               }),
                  {"city"});
  const auto metrics = head->spec(of_cities(), Mode::kEval, logits_of_cities()).metrics.compute();
  EXPECT_DOUBLE_EQ(metrics.at("accuracy/city=Bern"), 0.75);
  EXPECT_EQ(metrics.at("words"), 3);
  EXPECT_EQ(metrics.at("words/city=Bern"), 1);
  EXPECT_EQ(metrics.at("words/city=Basel"), 2);
}

TEST(WithSlices, MergesWithBatchesOfOtherValues) {
  const auto head = with_slices(binary_class_head(), {"city"});
  const auto batch = of_cities();
  const auto metrics_of = [&](std::int64_t begin, std::int64_t end) {
    return head->spec(batch.slice(begin, end), Mode::kEval, logits_of_cities().slice(0, begin, end))
        .metrics;
  };
  MetricSet merged = metrics_of(0, 1);
  merged.merge(metrics_of(1, 4));
  EXPECT_EQ(merged.to_bytes(), metrics_of(0, 4).to_bytes());
}

TEST(WithSlices, RefusesColumnsThatAreNoCategories) {
  const auto error_of = [](const std::string& column) {
    return message_of([&] {
      with_slices(binary_class_head(), {column})
          ->spec(of_cities(), Mode::kEval, logits_of_cities());
    });
  };
  EXPECT_THAT(error_of("price"), HasSubstr("the column \"price\" is a Float tensor [4], but"));
  EXPECT_THAT(error_of("words"), HasSubstr("the column \"words\" is ragged strings"));
  EXPECT_THAT(error_of("town"), HasSubstr("there is no feature \"town\""));
  const auto many = torch::arange(101);
  EXPECT_THAT(message_of([&] {
                with_slices(binary_class_head(), {"id"})
                    ->spec(make_batch({{"id", many}}, torch::zeros({101})), Mode::kEval,
                           torch::zeros({101, 1}));
              }),
              HasSubstr("has 101 values in one batch, and metrics are sliced by at most 100"));
}

TEST(WithDetailedMetrics, OfTwoClasses) {
  const auto head = with_detailed_metrics(binary_class_head());
  const auto metrics = head->spec(of_cities(), Mode::kEval, logits_of_cities()).metrics;
  EXPECT_DOUBLE_EQ(metrics.at("f1").compute(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.at("balanced_accuracy").compute(), 0.75);
  EXPECT_GT(metrics.at("calibration_error").compute(), 0);
  EXPECT_EQ(metrics.tables().at("confusion_matrix").at(1, 0), 1);
}

TEST(WithDetailedMetrics, OfManyClasses) {
  const auto logits = torch::tensor({{2.0F, 0.0F, 0.0F}, {0.0F, 3.0F, 0.0F}, {0.0F, 3.0F, 0.0F}});
  const auto head = with_detailed_metrics(multi_class_head(3, {.name = "kind"}));
  const Batch named{.features = {}, .labels = {{"kind", torch::tensor({0, 1, 2})}}};
  const auto metrics = head->spec(named, Mode::kEval, logits).metrics.compute();
  EXPECT_DOUBLE_EQ(metrics.at("balanced_accuracy/kind"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.at("f1_macro/kind"), (1 + 2.0 / 3 + 0) / 3);
  EXPECT_DOUBLE_EQ(metrics.at("precision/class1/kind"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("recall/class2/kind"), 0);
  EXPECT_NEAR(metrics.at("perplexity/kind"), std::exp(metrics.at("average_loss/kind")), 1e-12);
  EXPECT_EQ(metrics.count("top_5_accuracy/kind"), 0U);
}

TEST(MultiClassHead, HasScoresOfChosenClasses) {
  const auto head = multi_class_head(
      3, {.label_vocabulary = {"a", "b", "c"}, .classes_for_class_based_metrics = {1}});
  const auto labels = StringColumn(std::vector<std::string>{"b", "c"}, {2});
  const auto metrics = head->spec(make_batch({}, labels), Mode::kEval,
                                  torch::tensor({{0.0F, 1.0F, 0.0F}, {0.0F, 1.0F, 0.0F}}))
                           .metrics.compute();
  EXPECT_EQ(metrics.size(), 5U);
  EXPECT_DOUBLE_EQ(metrics.at("precision/b"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("recall/b"), 1);
  EXPECT_DOUBLE_EQ(metrics.at("f1/b"), 2.0 / 3);
  EXPECT_THROW(multi_class_head(3, {.classes_for_class_based_metrics = {3}}), InvalidArgument);
}

TEST(WithDetailedMetrics, OfLabelsAndOfNumbers) {
  const auto labels = multi_label_head(3);
  const auto hot = make_batch({}, torch::tensor({{1, 0, 1}}));
  EXPECT_THAT(keys_of(with_detailed_metrics(labels)
                          ->spec(hot, Mode::kEval, torch::tensor({{1.0F, 2.0F, -1.0F}}))
                          .metrics),
              IsSupersetOf({"f1_micro", "precision_at_1", "recall_at_3", "calibration_error"}));
  const auto both = with_detailed_metrics(
      multi_head({regression_head(1, {.name = "price"}), binary_class_head({.name = "sold"})}));
  const Batch batch{
      .features = {},
      .labels = {{"price", torch::tensor({1.0F, 3.0F})}, {"sold", torch::tensor({0, 1})}}};
  const auto metrics =
      both->spec(batch, Mode::kEval, torch::tensor({{1.0F, 1.0F}, {2.0F, 1.0F}})).metrics;
  EXPECT_DOUBLE_EQ(metrics.at("rmse/price").compute(), std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(metrics.at("mae/price").compute(), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("mape/price").compute(), 1.0 / 6);
  EXPECT_DOUBLE_EQ(metrics.at("r2/price").compute(), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("f1/sold").compute(), 2.0 / 3);
}

}  // namespace
}  // namespace muster
