#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/dataset/dataset.h"
#include "muster/export/export_saved_model.h"
#include "muster/nn/model/head.h"
#include "muster/nn/optim/optimizer.h"
#include "muster/nn/zoo/small_networks_fake.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/engine/train_options.h"
#include "muster/train/estimator/estimator.h"

namespace muster::zoo {
namespace {

using testing::TempDir;

class ZooExport : public ::testing::TestWithParam<std::string> {};

/// Classifiers are exported with a head, others give their own predictions.
HeadPtr head_of(const std::string& name, const at::Tensor& output) {
  const bool has_own_loss = name == "gpt2" || name == "llama" || name == "unet";
  return has_own_loss ? nullptr : multi_class_head(output.size(1));
}

TEST_P(ZooExport, AnswersAsTheModelDoes) {
  const torch::NoGradGuard no_grad;
  const TempDir dir;
  const auto network = small_network(GetParam());
  load_weights(*network, fixture(GetParam() + ".safetensors"));
  network->eval();
  const auto [features, output] = input_and_output(GetParam());
  const HeadPtr head = head_of(GetParam(), output);
  exporting::write_model(*network, head.get(), raw_serving_input(features), dir / "export");
  const auto exported = executor::ExecutableModel::load(dir / "export");
  // Also one row, which the trace has not seen.
  for (const std::int64_t rows : {2, 1}) {
    const Features batch = features.slice(0, rows);
    executor::Values given;
    for (const auto& [name, value] : batch) given.emplace(name, std::get<at::Tensor>(value));
    const auto answers = exported.run("serving_default", given);
    const auto wanted =
        network->call({.features = batch}, Mode::kPredict, head.get()).predictions.tensor("logits");
    const auto& logits = std::get<at::Tensor>(answers.at("logits"));
    ASSERT_EQ(logits.sizes(), wanted.sizes());
    EXPECT_LE((logits - wanted).abs().max().item<double>(), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ZooExport, ::testing::ValuesIn(small_networks()),
                         [](const auto& tested) { return tested.param; });

TEST(ZooExport, TakesBytesOfPixelsWhereTheModelDoes) {
  const torch::NoGradGuard no_grad;
  const TempDir dir;
  at::manual_seed(1);
  const auto network =
      resnet({.units = {1, 1}, .base_channels = 4, .num_classes = 3, .image = imagenet_pixels()});
  network->eval();
  const Features features{{"image", at::randint(256, {2, 16, 16, 3}, at::kByte)}};
  const auto head = multi_class_head(3);
  exporting::write_model(*network, head.get(), raw_serving_input(features), dir / "export");
  const auto answers = executor::ExecutableModel::load(dir / "export")
                           .run("serving_default", {{"image", features.tensor("image")}});
  EXPECT_LE((std::get<at::Tensor>(answers.at("logits")) - network->forward(features))
                .abs()
                .max()
                .item<double>(),
            1e-5);
}

/// The same batch in every step.
InputFn always(Batch batch) {
  return [batch = std::move(batch)](const InputContext&) {
    return range(1).repeat().batch(1, [batch](std::span<const std::int64_t>) { return batch; });
  };
}

double loss_after(const EstimatorOptions& options, const Batch& batch, std::int64_t steps) {
  const TempDir dir;
  Estimator estimator(options, {.model_dir = dir.path()});
  estimator.train(always(batch), {.max_steps = steps});
  return estimator.evaluate(always(batch), {.steps = 1}).at("average_loss");
}

TEST(ZooTraining, AnEstimatorTrainsFromPixelsWithAHead) {
  at::manual_seed(1);
  const Batch batch = make_batch({{"image", at::randint(256, {6, 16, 16, 3}, at::kByte)}},
                                 at::arange(6).remainder(3).reshape({6, 1}));
  const EstimatorOptions options{
      .model =
          [] {
            return mobilenet_v2({.width = 0.25,
                                 .stages = {{1, 16, 1, 1}, {2, 24, 1, 1}},
                                 .last_channels = 32,
                                 .num_classes = 3,
                                 .image = imagenet_pixels()});
          },
      .head = multi_class_head(3),
      .optimizer = adam({.learning_rate = 0.01})};
  EXPECT_LT(loss_after(options, batch, 40), 0.7 * loss_after(options, batch, 1));
}

TEST(ZooTraining, AnEstimatorTrainsModelsThatNeedNoHead) {
  at::manual_seed(1);
  const Batch words{.features = {{"input", at::randint(20, {4, 9}, at::kLong)}}};
  const EstimatorOptions decoder{.model = [] { return small_network("gpt2"); },
                                 .optimizer = adam({.learning_rate = 0.01})};
  EXPECT_LT(loss_after(decoder, words, 40), 0.7 * loss_after(decoder, words, 1));

  const auto images = at::rand({2, 3, 8, 8});
  const Batch pixels = make_batch({{"image", images}}, (images.sum(1) > 1.5).to(at::kLong));
  const EstimatorOptions segments{.model = [] { return small_network("unet"); },
                                  .optimizer = adam({.learning_rate = 0.02})};
  EXPECT_LT(loss_after(segments, pixels, 40), 0.7 * loss_after(segments, pixels, 1));
}

}  // namespace
}  // namespace muster::zoo
