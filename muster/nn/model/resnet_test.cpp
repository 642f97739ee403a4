#include "muster/nn/model/resnet.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/kernels/libtorch_kernels.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/model/seeded_module.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// libtorch looks for a module among shared pointers.
std::shared_ptr<ResNet> make(ResNetOptions options) {
  return std::make_shared<ResNet>(std::move(options));
}

std::map<std::string, at::Tensor> by_name(const ResNet& model) {
  std::map<std::string, at::Tensor> named;
  for (const auto& variable : variables_of(model)) named.emplace(variable.name, variable.tensor);
  return named;
}

// All convolutions give zero, so that nothing but the shortcuts is left of the units.
std::map<std::string, at::Tensor> without_convolutions(ResNet& model) {
  const torch::NoGradGuard no_grad;
  auto named = by_name(model);
  for (auto& [name, tensor] : named) {
    if (name.ends_with("/kernel")) tensor.zero_();
  }
  return named;
}

TEST(ResNet, HasTheVariablesOfTheSeeds) {
  const auto model = make({.num_classes = 11});
  std::int64_t tensors = 0;
  std::int64_t scalars = 0;
  std::int64_t statistics = 0;
  for (const auto& variable : variables_of(*model)) {
    if (variable.trainable) ++tensors;
    if (variable.trainable) scalars += variable.tensor.numel();
    if (variable.name.find("/moving_") != std::string::npos) statistics += variable.tensor.numel();
  }
  EXPECT_EQ(tensors, 131);
  EXPECT_EQ(scalars, 658'651);
  EXPECT_EQ(statistics, 3'168);
  const auto named = by_name(*model);
  EXPECT_THAT(named.at("resnet/conv2d/kernel").sizes(), ElementsAre(16, 3, 3, 3));
  EXPECT_THAT(named.at("resnet/stage_2/residual_v1/conv2d/kernel").sizes(),
              ElementsAre(64, 32, 3, 3));
  EXPECT_THAT(named.at("resnet/stage_1/residual_v1_6/batch_normalization_1/gamma").sizes(),
              ElementsAre(32));
  EXPECT_THAT(named.at("resnet/dense/kernel").sizes(), ElementsAre(64, 11));
}

TEST(ResNet, StartsFromGlorotWeightsThatFollowTheSeed) {
  const auto one = make({.num_layers = 8, .num_classes = 11});
  const auto two = make({.num_layers = 8, .num_classes = 11});
  seed_modules(*one, 7);
  seed_modules(*two, 7);
  const std::string kernel = "resnet/stage_1/residual_v1/conv2d/kernel";
  EXPECT_TRUE(at::equal(by_name(*one).at(kernel), by_name(*two).at(kernel)));
  seed_modules(*two, 8);
  EXPECT_FALSE(at::equal(by_name(*one).at(kernel), by_name(*two).at(kernel)));
  const double limit = std::sqrt(6.0 / ((16 + 32) * 9));
  const auto largest = by_name(*one).at(kernel).abs().max().item<double>();
  EXPECT_LE(largest, limit);
  EXPECT_GT(largest, 0.99 * limit);
  EXPECT_EQ(by_name(*one).at("resnet/dense/bias").abs().max().item<double>(), 0);
}

TEST(ResNet, TellsTheShapesOfItsParts) {
  const auto shapes = resnet_shapes({.num_classes = 11});
  ASSERT_EQ(shapes.size(), 25U);
  EXPECT_EQ(shapes[6].name, "stage/residual_v1_6/");
  EXPECT_THAT(shapes[6].sizes, ElementsAre(16, 32, 32));
  EXPECT_EQ(shapes[7].name, "stage_1/residual_v1/avg_pool/");
  EXPECT_THAT(shapes[7].sizes, ElementsAre(16, 16, 16));
  EXPECT_EQ(shapes[22].name, "stage_2/residual_v1_6/");
  EXPECT_THAT(shapes[22].sizes, ElementsAre(64, 8, 8));
  EXPECT_THAT(shapes[23].sizes, ElementsAre(64));
  EXPECT_THAT(shapes[24].sizes, ElementsAre(11));
}

TEST(ResNet, PadsChannelsOnBothSidesOfAShortcut) {
  const auto model = make({.num_layers = 8, .num_classes = 64});
  model->eval();
  const torch::NoGradGuard no_grad;
  auto named = without_convolutions(*model);
  const auto beta = torch::arange(16, torch::kFloat) - 4;
  named.at("resnet/batch_normalization/beta").copy_(beta);
  named.at("resnet/dense/kernel").copy_(torch::eye(64));
  named.at("resnet/dense/bias").fill_(0.5);
  const auto logits = model->forward({{"image", torch::zeros({2, 10, 7, 3}, torch::kByte)}});
  // 8 channels before and after in the second stage, 16 in the third.
  auto wanted = torch::full({2, 64}, 0.5);
  wanted.slice(1, 24, 40) += torch::relu(beta);
  EXPECT_TRUE(at::allclose(logits, wanted)) << logits;
}

TEST(ResNet, BringsPixelsAroundZeroAndPoolsThem) {
  for (const bool channels_last : {false, true}) {
    const auto model = make({.num_layers = 8, .num_classes = 64, .channels_last = channels_last});
    model->eval();
    const torch::NoGradGuard no_grad;
    auto named = without_convolutions(*model);
    for (std::int64_t colour = 0; colour < 3; ++colour) {
      named.at("resnet/conv2d/kernel")[colour][colour][1][1] = 1;
    }
    named.at("resnet/dense/kernel").copy_(torch::eye(64));
    torch::manual_seed(1);
    const auto images = torch::randint(0, 256, {2, 8, 8, 3}, torch::kByte);
    const auto logits = model->forward({{"image", images}});
    const auto wanted = torch::relu(images.to(torch::kFloat) / 128 - 1).mean({1, 2});
    EXPECT_TRUE(at::allclose(logits.slice(1, 24, 27), wanted, 1e-4)) << logits;
  }
}

TEST(ResNet, KeepsMostOfAMovingAverage) {
  const auto model = make({.num_layers = 8, .num_classes = 11});
  auto named = without_convolutions(*model);
  {
    const torch::NoGradGuard no_grad;
    named.at("resnet/conv2d/kernel")[5][0][1][1] = 1;
  }
  const auto logits = model->forward({{"image", torch::full({4, 8, 8, 3}, 384.0)}});
  logits.sum().backward();  // No gradient needs what the units change in place.
  EXPECT_NEAR(named.at("resnet/batch_normalization/moving_mean")[5].item<double>(), 0.003 * 2,
              1e-6);
}

/// Logits, gradients and moving statistics of one step, by name.
std::map<std::string, at::Tensor> training_step(ResNet& model) {
  torch::manual_seed(1);
  const auto images = torch::randint(0, 256, {3, 16, 16, 3}, torch::kByte);
  const auto logits = model.forward({{"image", images}});
  (logits * torch::randn(logits.sizes())).sum().backward();
  std::map<std::string, at::Tensor> result{{"logits", logits.detach()}};
  for (const auto& [name, tensor] : by_name(model)) {
    result.emplace(name, tensor.requires_grad() ? tensor.grad() : tensor.clone());
  }
  for (const auto& buffer : model.named_buffers()) {
    result.emplace("buffer " + buffer.key(), buffer.value().clone());
  }
  return result;
}

std::map<std::string, int> nodes_by_name(const torch::autograd::Node& last) {
  std::map<std::string, int> count;
  std::vector<const torch::autograd::Node*> open{&last};
  std::set<const torch::autograd::Node*> seen{&last};
  while (!open.empty()) {
    const auto* const node = open.back();
    open.pop_back();
    ++count[node->name()];
    for (const auto& edge : node->next_edges()) {
      if (edge.function != nullptr && seen.insert(edge.function.get()).second) {
        open.push_back(edge.function.get());
      }
    }
  }
  return count;
}

/// With muster's CPU kernels instead of libtorch's, and without.
class ResNetKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    const kernels::KernelScope scope(true);
    order_ = kernels::residual_unit_order();
    if (order_ == kernels::UnitOrder::kNone) GTEST_SKIP() << "libtorch's kernels are kept here";
  }

  kernels::UnitOrder order_{};
};

TEST_F(ResNetKernels, TakeAStepAsLibtorchsDo) {
  const auto ours = make({.num_layers = 14, .num_classes = 11});
  const auto theirs = make({.num_layers = 14, .num_classes = 11});
  const auto got = [&] {
    const kernels::KernelScope scope(true);
    return training_step(*ours);
  }();
  const auto wanted = training_step(*theirs);
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    const auto largest = tensor.abs().max().item<double>();
    EXPECT_TRUE(at::allclose(got.at(name), tensor, 1e-3, 1e-3 * largest)) << name;
  }
}

TEST_F(ResNetKernels, AreOneNodeAUnitInTrainingAlone) {
  const kernels::KernelScope scope(true);
  const auto nodes = [](ResNet& model, std::int64_t size) {
    const auto logits = model.forward({{"image", torch::zeros({2, size, size, 3})}});
    return nodes_by_name(*logits.grad_fn());
  };
  const auto model = make({.num_layers = 14, .num_classes = 11});
  EXPECT_EQ(nodes(*model, 16)["MusterResidualUnitBackward"], 6);
  EXPECT_EQ(nodes(*model, 16)["MusterNormalisedLayerBackward"], 1);
  // Rows of contiguous images are whole vectors.
  const bool takes_any_width = order_ == kernels::UnitOrder::kChannelsLast;
  EXPECT_EQ(nodes(*model, 10)["MusterResidualUnitBackward"], takes_any_width ? 5 : 0);
  EXPECT_EQ(nodes(*make({.num_layers = 14, .num_classes = 11, .fused = false}),
                  16)["MusterResidualUnitBackward"],
            0);
  model->eval();
  EXPECT_EQ(nodes(*model, 16)["MusterResidualUnitBackward"], 0);
}

TEST(ResNet, RefusesDepthsAndImagesThatDoNotFit) {
  EXPECT_THROW(ResNet({.num_layers = 8}), InvalidArgument);  // Of how many classes?
  EXPECT_THROW(ResNet({.num_layers = 43, .num_classes = 11}), InvalidArgument);
  EXPECT_THROW(ResNet({.num_layers = 2, .num_classes = 11}), InvalidArgument);
  EXPECT_THROW(ResNet({.num_layers = 8, .num_classes = 11, .batch_norm_decay = 1}),
               InvalidArgument);
  const auto model = make({.num_layers = 8, .num_classes = 11});
  EXPECT_THROW(model->forward({{"image", torch::zeros({1, 3, 32, 32})}}), InvalidArgument);
}

}  // namespace
}  // namespace muster
