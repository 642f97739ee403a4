#include "muster/nn/model/head.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Batch batch_of(FeatureValue label) { return make_batch({}, std::move(label)); }

StringColumn words(std::vector<std::string> all) {
  const auto count = static_cast<std::int64_t>(all.size());
  return {std::move(all), {count}};
}

std::vector<std::string> names_of(const Features& features) {
  std::vector<std::string> names;
  for (const auto& column : features) names.push_back(column.first);
  return names;
}

std::vector<std::string> names_of(const std::vector<ExportOutput>& outputs) {
  std::vector<std::string> names;
  for (const auto& output : outputs) names.push_back(output.name);
  return names;
}

std::vector<std::string> names_of(const MetricSet& metrics) {
  std::vector<std::string> names;
  for (const auto& entry : metrics.compute()) names.push_back(entry.first);
  return names;
}

double loss_of(const Head& head, const at::Tensor& logits, const Batch& batch) {
  const auto train = head.spec(batch, Mode::kTrain, logits).loss.item<double>();
  const auto eval = head.spec(batch, Mode::kEval, logits).loss.item<double>();
  EXPECT_NEAR(train, eval, 1e-5);
  return eval;
}

HeadOptions sum() { return {.loss_reduction = Reduction::kSum}; }

TEST(BinaryClassHead, GivesTheGoldenLossAndMetrics) {
  const auto head = binary_class_head(sum());
  const auto logits = torch::tensor({{45.0F}, {-41.0F}});
  const auto batch = batch_of(torch::tensor({{1}, {1}}));
  EXPECT_NEAR(loss_of(*head, logits, batch), 41.0, 1e-4);
  const auto metrics = head->spec(batch, Mode::kEval, logits).metrics.compute();
  const std::map<std::string, double> golden{
      {"average_loss", 20.5},   {"accuracy", 0.5},   {"precision", 1.0},
      {"recall", 0.5},          {"label/mean", 1.0}, {"prediction/mean", 0.5},
      {"accuracy_baseline", 1}, {"auc", 0.0},        {"auc_precision_recall", 1.0}};
  ASSERT_EQ(metrics.size(), golden.size());
  for (const auto& [name, value] : golden) EXPECT_NEAR(metrics.at(name), value, 1e-5) << name;
}

TEST(BinaryClassHead, PredictsAllKeysAndATieIsTheFirstClass) {
  const auto head = binary_class_head({.label_vocabulary = {"no", "yes"}});
  const auto spec = head->spec({}, Mode::kPredict, torch::tensor({{0.0F}, {2.0F}}));
  EXPECT_THAT(names_of(spec.predictions),
              ElementsAre("logits", "logistic", "probabilities", "class_ids", "classes",
                          "all_class_ids", "all_classes"));
  EXPECT_TRUE(torch::equal(spec.predictions.tensor("class_ids"), torch::tensor({{0}, {1}})));
  EXPECT_THAT(spec.predictions.strings("classes").values(), ElementsAre("no", "yes"));
  EXPECT_THAT(spec.predictions.strings("all_classes").row(1), ElementsAre("no", "yes"));
  EXPECT_NEAR(spec.predictions.tensor("probabilities")[1][1].item<float>(), 0.8808F, 1e-4);
  EXPECT_THAT(names_of(spec.export_outputs),
              ElementsAre("serving_default", "classification", "regression", "predict"));
  EXPECT_EQ(spec.export_outputs[0].kind, SignatureKind::kClassify);
  EXPECT_THAT(spec.export_outputs[0].classes, ElementsAre("no", "yes"));
}

TEST(BinaryClassHead, NamesMetricsByThresholdAndHead) {
  const auto head = binary_class_head({.name = "click", .thresholds = {0.25, 0.5}});
  const auto metrics =
      head->spec(batch_of(torch::tensor({0, 1})), Mode::kEval, torch::tensor({{0.0F}, {-0.5F}}))
          .metrics.compute();
  EXPECT_EQ(metrics.count("accuracy/positive_threshold_0.25/click"), 1U);
  // A probability of exactly 0.5 is accepted for accuracy, and not for recall.
  EXPECT_DOUBLE_EQ(metrics.at("accuracy/positive_threshold_0.5/click"), 0.0);
  EXPECT_DOUBLE_EQ(metrics.at("recall/positive_threshold_0.25/click"), 1.0);
  EXPECT_DOUBLE_EQ(metrics.at("precision/positive_threshold_0.25/click"), 0.5);
  EXPECT_THROW(binary_class_head({.thresholds = {1.0}}), InvalidArgument);
}

TEST(BinaryClassHead, WeighsExamples) {
  const auto head = binary_class_head({.weight_column = "w"});
  const auto logits = torch::tensor({{45.0F}, {-41.0F}});
  Batch batch = make_batch({{"w", torch::tensor({3.0F, 1.0F})}}, torch::tensor({1, 1}));
  const auto spec = head->spec(batch, Mode::kEval, logits);
  EXPECT_NEAR(spec.loss.item<float>(), 41.0 / 2, 1e-4);
  EXPECT_NEAR(spec.metrics.at("average_loss").compute(), 41.0 / 4, 1e-4);
  EXPECT_NEAR(spec.metrics.at("accuracy").compute(), 0.75, 1e-6);
  batch.features.set("w", torch::ones({2, 2}));
  EXPECT_THAT(message_of([&] { head->spec(batch, Mode::kEval, logits); }),
              HasSubstr("weight_column \"w\" is a Float tensor [2, 2], but must be [2] or [2, 1]"));
  EXPECT_THROW(head->spec(batch_of(torch::tensor({1, 1})), Mode::kTrain, logits), NotFound);
}

TEST(BinaryClassHead, ExplainsLabelsItCannotUse) {
  const auto head = binary_class_head();
  const auto logits = torch::zeros({2, 1});
  const auto train = [&](const Batch& batch) {
    return message_of([&] { head->spec(batch, Mode::kTrain, logits); });
  };
  EXPECT_THAT(train({}), HasSubstr("labels are missing"));
  EXPECT_THAT(train(batch_of(torch::tensor({0, 2}))),
              HasSubstr("label \"label\" is 2 in row 1 of the batch, but must be in [0, 1]"));
  EXPECT_THAT(train(batch_of(torch::ones({2, 3}))), HasSubstr("is a Float tensor [2, 3]"));
  EXPECT_THAT(train(batch_of(words({"a", "b"}))), HasSubstr("set the head's label_vocabulary"));
  EXPECT_THAT(train(batch_of(torch::ones({3}))),
              HasSubstr("logits for 2 examples, but there are labels for 3"));
  EXPECT_THAT(train({.features = {}, .labels = {{"y", torch::ones({2})}}}),
              HasSubstr("no label \"label\"; there are: y"));
  EXPECT_THAT(message_of([&] {
                head->spec({}, Mode::kPredict, torch::zeros({2, 3}));
              }),
              HasSubstr("wants floats [batch, 1]"));
}

TEST(BinaryClassHead, LooksWordsUpInItsVocabulary) {
  const auto head = binary_class_head({.label_vocabulary = {"<=50K", ">50K"}});
  const auto logits = torch::zeros({2, 1});
  const auto spec = head->spec(batch_of(words({">50K", "<=50K"})), Mode::kEval, logits);
  EXPECT_DOUBLE_EQ(spec.metrics.at("label/mean").compute(), 0.5);
  EXPECT_THAT(message_of([&] {
                head->spec(batch_of(words({">50K", ">50K."})), Mode::kTrain, logits);
              }),
              HasSubstr("is \">50K.\" in row 1 of the batch, which is not in label_vocabulary"));
  EXPECT_THROW(head->spec(batch_of(torch::tensor({0, 1})), Mode::kTrain, logits), InvalidArgument);
  EXPECT_THROW(binary_class_head({.label_vocabulary = {"a"}}), InvalidArgument);
  EXPECT_THROW(binary_class_head({.label_vocabulary = {"a", "a"}}), InvalidArgument);
}

TEST(MultiClassHead, GivesTheGoldenLossAndMetrics) {
  const auto head = multi_class_head(3, sum());
  const auto logits = torch::tensor({{10.0F, 0.0F, 0.0F}, {0.0F, 10.0F, 0.0F}});
  const auto batch = batch_of(torch::tensor({{1}, {1}}));
  EXPECT_NEAR(loss_of(*head, logits, batch), 10.0, 1e-2);
  const auto metrics = head->spec(batch, Mode::kEval, logits).metrics.compute();
  EXPECT_NEAR(metrics.at("average_loss"), 5.0, 1e-2);
  EXPECT_NEAR(metrics.at("accuracy"), 0.5, 1e-6);
  EXPECT_EQ(metrics.size(), 2U);
}

TEST(MultiClassHead, PredictsAllKeys) {
  const auto head = multi_class_head(3);
  const auto spec = head->spec({}, Mode::kPredict, torch::tensor({{1.0F, 2.0F, 2.0F}}));
  EXPECT_THAT(names_of(spec.predictions), ElementsAre("logits", "probabilities", "class_ids",
                                                      "classes", "all_class_ids", "all_classes"));
  EXPECT_THAT(spec.predictions.strings("classes").values(), ElementsAre("1"));
  EXPECT_THAT(spec.predictions.strings("all_classes").values(), ElementsAre("0", "1", "2"));
}

TEST(MultiClassHead, ExplainsLabelsItCannotUse) {
  const auto head = multi_class_head(10);
  const auto logits = torch::zeros({2, 10});
  EXPECT_THAT(message_of([&] {
                head->spec(batch_of(torch::tensor({3, 10})), Mode::kTrain, logits);
              }),
              HasSubstr("label \"label\" is 10 in row 1 of the batch, but must be in [0, 9]"));
  EXPECT_THAT(message_of([&] { head->check_labels(batch_of(torch::ones({2})).labels); }),
              HasSubstr("class ids are integers"));
  EXPECT_THROW(multi_class_head(2), InvalidArgument);
  EXPECT_THROW(multi_class_head(3, {.thresholds = {0.5}}), InvalidArgument);
}

TEST(MultiLabelHead, AveragesOverClassesAndTakesEveryKindOfLabel) {
  const auto logits = torch::tensor({{-10.0F, 10.0F}, {-15.0F, 10.0F}});
  const auto hot = batch_of(torch::tensor({{1, 0}, {1, 1}}));
  const auto ids = batch_of(RaggedColumn{.values = torch::tensor({0, 0, 1}, torch::kLong),
                                         .row_splits = torch::tensor({0, 1, 3}, torch::kLong)});
  const auto head = multi_label_head(2);
  // ((10 + 10) / 2 + (15 + 0) / 2) / 2.
  EXPECT_NEAR(loss_of(*head, logits, hot), 8.75, 1e-3);
  EXPECT_NEAR(loss_of(*head, logits, ids), 8.75, 1e-3);
  const auto named =
      multi_label_head(2, {.loss_reduction = Reduction::kSum, .label_vocabulary = {"a", "b"}});
  const auto strings = batch_of(StringColumn::ragged({"a", "a", "b"}, {0, 1, 3}, nullptr));
  EXPECT_NEAR(loss_of(*named, logits, strings), 17.5, 1e-3);
  EXPECT_THROW(
      head->spec(batch_of(RaggedColumn{.values = torch::tensor({2}, torch::kLong),
                                       .row_splits = torch::tensor({0, 1, 1}, torch::kLong)}),
                 Mode::kTrain, logits),
      InvalidArgument);
}

TEST(MultiLabelHead, HasMetricsOfChosenClasses) {
  const auto head =
      multi_label_head(3, {.thresholds = {0.5}, .classes_for_class_based_metrics = {0, 2}});
  const auto spec = head->spec(batch_of(torch::tensor({{1, 0, 1}})), Mode::kEval,
                               torch::tensor({{0.0F, 1.0F, 2.0F}}));
  EXPECT_THAT(names_of(spec.metrics),
              ::testing::UnorderedElementsAre(
                  "average_loss", "auc", "auc_precision_recall", "accuracy/positive_threshold_0.5",
                  "precision/positive_threshold_0.5", "recall/positive_threshold_0.5",
                  "probability_mean/class0", "auc/class0", "auc_precision_recall/class0",
                  "probability_mean/class2", "auc/class2", "auc_precision_recall/class2"));
  EXPECT_NEAR(spec.metrics.at("probability_mean/class0").compute(), 0.5, 1e-6);
  EXPECT_THROW(multi_label_head(3, {.classes_for_class_based_metrics = {3}}), InvalidArgument);
  EXPECT_THROW(multi_label_head(1), InvalidArgument);
}

TEST(RegressionHead, GivesTheGoldenLossAndMetrics) {
  const auto head = regression_head(1, sum());
  const auto logits = torch::tensor({{45.0F}, {41.0F}});
  const auto batch = batch_of(torch::tensor({{43.0F}, {44.0F}}));
  EXPECT_NEAR(loss_of(*head, logits, batch), 13.0, 1e-5);
  const auto metrics = head->spec(batch, Mode::kEval, logits).metrics.compute();
  EXPECT_NEAR(metrics.at("average_loss"), 6.5, 1e-5);
  EXPECT_NEAR(metrics.at("prediction/mean"), 43.0, 1e-5);
  EXPECT_NEAR(metrics.at("label/mean"), 43.5, 1e-5);
  EXPECT_NEAR(metrics.at("rmse"), std::sqrt(6.5), 1e-5);
  EXPECT_EQ(metrics.size(), 4U);
}

TEST(RegressionHead, TakesWeightsForEveryDimension) {
  const auto head = regression_head(2, {.weight_column = "w", .loss_reduction = Reduction::kSum});
  const auto batch = make_batch({{"w", torch::tensor({{1.0F, 0.0F}, {0.0F, 2.0F}})}},
                                torch::tensor({{1.0F, 9.0F}, {9.0F, 2.0F}}));
  const auto spec = head->spec(batch, Mode::kTrain, torch::zeros({2, 2}));
  EXPECT_NEAR(spec.loss.item<float>(), 1.0 + 2.0 * 4.0, 1e-5);
  EXPECT_EQ(spec.summaries.scalars[0].first, "average_loss");
  EXPECT_NEAR(spec.summaries.scalars[0].second.item<float>(), 3.0, 1e-5);
}

TEST(RegressionHead, RejectsLabelsThatAreNoNumbers) {
  EXPECT_THROW(
      regression_head()->spec(batch_of(torch::tensor({NAN})), Mode::kTrain, torch::zeros({1, 1})),
      InvalidArgument);
}

TEST(PoissonHead, GivesTheGoldenLosses) {
  const auto head = poisson_head();
  const auto logits = torch::tensor({{0.0F}, {-1.0F}, {1.0F}});
  const auto batch = batch_of(torch::tensor({1.0F, 2.0F, 3.0F}));
  const auto loss = head->loss(logits, batch, Mode::kEval);
  EXPECT_TRUE(torch::allclose(loss.unreduced, torch::tensor({{1.0F}, {3.020F}, {1.482F}}), 1e-3));
  EXPECT_NEAR(loss_of(*head, logits, batch), 1.834, 1e-3);
  const auto predictions = head->predictions(logits);
  EXPECT_THAT(names_of(predictions), ElementsAre("predictions", "logits"));
  EXPECT_NEAR(predictions.tensor("predictions")[2].item<float>(), 2.71828F, 1e-4);
  EXPECT_THROW(head->check_labels(batch_of(torch::tensor({-1.0F})).labels), InvalidArgument);
}

TEST(LogisticRegressionHead, GivesTheGoldenLosses) {
  const auto head = logistic_regression_head();
  const auto logits = torch::tensor({{0.0F}, {-1.0F}, {1.0F}});
  const auto batch = batch_of(torch::tensor({0.4F, 0.6F, 0.8F}));
  const auto loss = head->loss(logits, batch, Mode::kEval);
  EXPECT_TRUE(
      torch::allclose(loss.unreduced, torch::tensor({{0.6931F}, {0.9133F}, {0.5133F}}), 1e-3));
  EXPECT_NEAR(loss_of(*head, logits, batch), 0.7066, 1e-3);
}

TEST(MultiHead, AddsUpItsHeadsAndNamesTheirKeys) {
  const auto head = multi_head(
      {binary_class_head({.name = "click"}), regression_head(2, {.name = "price"})}, {2.0, 0.5});
  ASSERT_EQ(head->logits_dimension(), 3);
  const auto logits = torch::tensor({{0.0F, 1.0F, 3.0F}});
  const Batch batch{
      .features = {},
      .labels = {{"price", torch::tensor({{0.0F, 0.0F}})}, {"click", torch::tensor({1})}}};
  EXPECT_NEAR(loss_of(*head, logits, batch), 2.0 * 0.693147 + 0.5 * 5.0, 1e-5);
  const auto metrics = head->spec(batch, Mode::kEval, logits).metrics.compute();
  EXPECT_NEAR(metrics.at("loss/price"), 5.0, 1e-6);
  EXPECT_NEAR(metrics.at("average_loss/click"), 0.693147, 1e-5);
  const auto predict = head->spec({}, Mode::kPredict, logits);
  EXPECT_TRUE(predict.predictions.contains("price/predictions"));
  EXPECT_THAT(
      names_of(predict.export_outputs),
      ElementsAre("serving_default", "click", "click/classification", "click/regression",
                  "click/predict", "price", "price/regression", "price/predict", "predict"));
  EXPECT_EQ(predict.export_outputs[0].outputs[0].second, "click/probabilities");
  EXPECT_NO_THROW(checked(predict));
}

TEST(MultiHead, WantsALabelForEveryHead) {
  const auto head = multi_head({binary_class_head({.name = "click"})});
  EXPECT_THAT(message_of([&] {
                head->spec(batch_of(torch::tensor({1})), Mode::kTrain, torch::zeros({1, 1}));
              }),
              HasSubstr("no label for the head \"click\"; there are: label"));
  EXPECT_THROW(multi_head({}), InvalidArgument);
  EXPECT_THROW(multi_head({binary_class_head()}), InvalidArgument);
  const auto named = regression_head(1, {.name = "a"});
  EXPECT_THROW(multi_head({named, named}), InvalidArgument);
  EXPECT_THROW(multi_head({named}, {1.0, 2.0}), InvalidArgument);
}

TEST(Head, AddsTheRegularizationLoss) {
  const auto head = regression_head();
  const auto batch = batch_of(torch::tensor({2.0F}));
  const auto reg = torch::tensor(0.25F);
  const auto train = head->spec(batch, Mode::kTrain, torch::zeros({1, 1}), reg);
  EXPECT_NEAR(train.loss.item<float>(), 4.25, 1e-6);
  ASSERT_EQ(train.summaries.scalars.size(), 1U);
  EXPECT_EQ(train.summaries.scalars[0].first, "regularization_loss");
  const auto eval = head->spec(batch, Mode::kEval, torch::zeros({1, 1}), reg);
  EXPECT_NEAR(eval.metrics.at("regularization_loss").compute(), 0.25, 1e-6);
  EXPECT_NEAR(eval.metrics.at("average_loss").compute(), 4.0, 1e-6);
}

TEST(Head, GivesGradientsOnlyToTheLogits) {
  const auto head = multi_class_head(3);
  const auto logits = torch::zeros({2, 3}, torch::requires_grad());
  head->spec(batch_of(torch::tensor({0, 2})), Mode::kTrain, logits).loss.backward();
  EXPECT_NEAR(logits.grad()[0][0].item<float>(), (1.0 / 3 - 1) / 2, 1e-6);
}

}  // namespace
}  // namespace muster
