#include "muster/nn/model/model.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/metrics.h"

namespace muster {
namespace {

Batch two_examples() {
  return make_batch({{"x", torch::tensor({{1.0F, 2.0F}, {3.0F, 4.0F}})}},
                    torch::tensor({1.0F, 2.0F}));
}

std::shared_ptr<Model> linear_model() {
  auto dense = std::make_shared<Dense>(2, 1, DenseOptions{.kernel_initializer = ones()});
  return model_from(
      dense, [dense](const Features& x) { return dense->forward(x.tensor("x")); }, "linear");
}

TEST(Model, PutsTheHeadAfterForward) {
  const auto model = linear_model();
  const auto head = regression_head();
  const auto spec = model->call(two_examples(), Mode::kTrain, head.get());
  EXPECT_NEAR(spec.loss.item<float>(), ((3 - 1) * (3 - 1) + (7 - 2) * (7 - 2)) / 2.0, 1e-5);
  spec.loss.backward();
  EXPECT_TRUE(model->named_parameters()["linear.kernel"].grad().defined());
  const auto predict =
      model->call({.features = two_examples().features, .labels = {}}, Mode::kPredict, head.get());
  EXPECT_TRUE(
      torch::equal(predict.predictions.tensor("predictions"), torch::tensor({{3.0F}, {7.0F}})));
}

TEST(Model, SaysThatAHeadIsMissing) {
  EXPECT_THROW(linear_model()->call(two_examples(), Mode::kTrain, nullptr), FailedPrecondition);
}

struct OwnStep : Model {
  torch::Tensor forward(const Features& x) override { return x.tensor("x").sum(1); }
  EstimatorSpec call(const Batch& batch, Mode mode, const Head*) override {
    EstimatorSpec spec{.mode = mode};
    spec.predictions.add("total", forward(batch.features));
    if (mode != Mode::kPredict) spec.loss = spec.predictions.tensor("total").mean();
    if (mode == Mode::kEval) spec.metrics.add("total/mean", Mean()).update(spec.loss);
    return spec;
  }
};

TEST(Model, CanDoTheWholeStepItself) {
  OwnStep model;
  const auto spec = checked(model.call(two_examples(), Mode::kPredict, nullptr));
  ASSERT_EQ(spec.export_outputs.size(), 1U);
  EXPECT_EQ(spec.export_outputs[0].name, kServingDefault);
  EXPECT_NEAR(model.call(two_examples(), Mode::kEval, nullptr).metrics.at("total/mean").compute(),
              5.0, 1e-6);
}

TEST(EstimatorSpec, NeedsWhatItsModeNeeds) {
  EXPECT_THROW(checked({.mode = Mode::kTrain}), InvalidArgument);
  EXPECT_THROW(checked({.mode = Mode::kEval}), InvalidArgument);
  EXPECT_THROW(checked({.mode = Mode::kPredict}), InvalidArgument);
}

TEST(EstimatorSpec, TakesALossOfOneElementOnly) {
  EXPECT_EQ(checked({.mode = Mode::kTrain, .loss = torch::ones({1})}).loss.dim(), 0);
  EXPECT_THROW(checked({.mode = Mode::kTrain, .loss = torch::ones({2})}), InvalidArgument);
  EXPECT_THROW(checked({.mode = Mode::kTrain, .loss = torch::ones({1, 1})}), InvalidArgument);
  EXPECT_THROW(checked({.mode = Mode::kTrain, .loss = torch::tensor(1)}), InvalidArgument);
}

TEST(EstimatorSpec, KeepsTheNamesThatEvaluationAddsFree) {
  for (const auto* name : {"loss", "global_step"}) {
    EstimatorSpec spec{.mode = Mode::kEval, .loss = torch::tensor(1.0F)};
    spec.metrics.add(name, Mean());
    EXPECT_THROW(checked(spec), InvalidArgument) << name;
  }
}

TEST(ExportOutputs, GetOneServingDefault) {
  const std::vector<std::string> predictions{"label", "id"};
  const auto none = with_serving_default({}, predictions);
  ASSERT_EQ(none.size(), 1U);
  EXPECT_EQ(none[0].outputs.size(), 2U);
  const ExportOutput labels{.name = "labels", .outputs = {{"label", "label"}}};
  const auto one = with_serving_default({labels}, predictions);
  ASSERT_EQ(one.size(), 2U);
  EXPECT_EQ(one[1].name, kServingDefault);
  ExportOutput other = labels;
  other.name = "other";
  EXPECT_THROW(with_serving_default({labels, other}, predictions), InvalidArgument);
  EXPECT_THROW(with_serving_default({labels, labels}, predictions), InvalidArgument);
  other.outputs = {{"x", "absent"}};
  EXPECT_THROW(with_serving_default({other}, predictions), InvalidArgument);
}

}  // namespace
}  // namespace muster
