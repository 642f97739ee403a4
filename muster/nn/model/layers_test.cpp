#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/dropout.h"
#include "muster/nn/model/mlp.h"
#include "muster/nn/model/philox_fill.h"
#include "muster/nn/model/random_scope.h"
#include "muster/nn/model/seeded_module.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(PhiloxFill, GivesTheWordsOfPhilox) {
  constexpr std::uint64_t kFirst = 0xFFFFFFF0;  // Blocks cross into the counter's upper half.
  std::vector<std::uint32_t> words(1027);
  philox_fill(99, kFirst, words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    ASSERT_EQ(words[i], philox(99, kFirst + i / 4, 0)[i % 4]) << i;
  }
}

TEST(DeriveKey, TellsNamesApart) {
  EXPECT_EQ(derive_key(1, "dnn.kernel"), derive_key(1, "dnn.kernel"));
  EXPECT_NE(derive_key(1, "dnn.kernel"), derive_key(2, "dnn.kernel"));
  EXPECT_NE(derive_key(1, "a"), derive_key(1, "b"));
  EXPECT_NE(derive_key(1, "a"), derive_key(1, std::string_view("a\0", 2)));
}

TEST(Initializers, FillTheSameNumbersOnEveryMachine) {
  auto kernel = torch::empty({3, 2});
  glorot_uniform()(kernel, 42);
  const float limit = std::sqrt(6.0F / 5.0F);
  EXPECT_LE(kernel.abs().max().item<float>(), limit);
  const auto word = philox(derive_key(42, 0), 0, 0)[0];
  EXPECT_EQ(kernel[0][0].item<float>(),
            static_cast<float>((static_cast<double>(word >> 8) * 0x1.0p-23 - 1.0) *
                               std::sqrt(6.0 / 5.0)));
}

TEST(Initializers, CountFansByLayout) {
  auto convolution = torch::empty({64, 32, 3, 3});
  glorot_uniform(KernelLayout::kOutIn)(convolution, 1);
  const double limit = std::sqrt(6.0 / ((64 + 32) * 9));
  EXPECT_LE(convolution.abs().max().item<double>(), limit);
  EXPECT_GT(convolution.abs().max().item<double>(), 0.99 * limit);
  auto bias = torch::empty({3});
  EXPECT_THROW(glorot_uniform()(bias, 1), InvalidArgument);
}

TEST(Initializers, DrawATruncatedNormal) {
  auto tensor = torch::empty({200000});
  truncated_normal(2.0F)(tensor, 5);
  EXPECT_LE(tensor.abs().max().item<double>(), 4.0);
  EXPECT_NEAR(tensor.mean().item<double>(), 0.0, 0.02);
  // A normal distribution cut off at two standard deviations has 0.8796 of the deviation.
  EXPECT_NEAR(tensor.std().item<double>(), 2.0 * 0.87962566, 0.01);
  EXPECT_NEAR(tensor.abs().lt(2.0).to(torch::kDouble).mean().item<double>(), 0.6827 / 0.9545, 5e-3);
  EXPECT_THROW(truncated_normal(0.0F), InvalidArgument);
}

TEST(Initializers, DoNotDependOnTheNumberOfThreads) {
  auto one = torch::empty({100000});
  auto two = torch::empty({100000});
  at::set_num_threads(1);
  truncated_normal(1.0F)(one, 5);
  at::set_num_threads(2);
  truncated_normal(1.0F)(two, 5);
  at::set_num_threads(1);
  EXPECT_TRUE(torch::equal(one, two));
}

TEST(SeededModules, DoNotDependOnTheOrderOfConstruction) {
  struct Pair : torch::nn::Module {
    explicit Pair(bool swapped) {
      for (const auto* name : swapped ? std::array{"b", "a"} : std::array{"a", "b"}) {
        register_module(name, std::make_shared<Dense>(4, 3));
      }
    }
  };
  const auto one = std::make_shared<Pair>(false);
  const auto two = std::make_shared<Pair>(true);
  seed_modules(*one, 11);
  seed_modules(*two, 11);
  for (const auto& parameter : one->named_parameters()) {
    EXPECT_TRUE(torch::equal(parameter.value(), two->named_parameters()[parameter.key()]));
  }
  EXPECT_FALSE(
      torch::equal(one->named_parameters()["a.kernel"], one->named_parameters()["b.kernel"]));
  seed_modules(*two, 12);
  EXPECT_FALSE(
      torch::equal(one->named_parameters()["a.kernel"], two->named_parameters()["a.kernel"]));
}

TEST(Dense, MultipliesAndAdds) {
  Dense dense(2, 3, {.kernel_initializer = ones(), .bias_initializer = constant(0.5F)});
  EXPECT_THAT(dense.kernel.sizes().vec(), ElementsAre(2, 3));
  EXPECT_TRUE(torch::equal(dense.forward(torch::tensor({{1.0F, 2.0F}})), torch::full({1, 3}, 3.5)));
  Dense without(2, 3, {.use_bias = false, .kernel_initializer = ones()});
  EXPECT_TRUE(
      torch::equal(without.forward(torch::tensor({{1.0F, 2.0F}})), torch::full({1, 3}, 3.0)));
  EXPECT_THROW(Dense(0, 3), InvalidArgument);
}

TEST(Dropout, DropsTheRateAndKeepsTheMean) {
  Dropout dropout(0.4);
  const RandomScope scope(1, 2, 3);
  const auto out = dropout.forward(torch::ones({1000, 100}));
  EXPECT_NEAR(out.eq(0).to(torch::kDouble).mean().item<double>(), 0.4, 0.01);
  EXPECT_NEAR(out.mean().item<double>(), 1.0, 0.01);
  EXPECT_EQ(out.max().item<float>(), static_cast<float>(65536.0 / (65536.0 - 26214.0)));
}

at::Tensor mask_of(Dropout& dropout, std::uint64_t seed, std::int64_t step, std::int64_t replica) {
  const RandomScope scope(seed, step, replica);
  return dropout.forward(torch::ones({5000}));
}

TEST(Dropout, IsAFunctionOfSeedStepReplicaAndName) {
  Dropout dropout(0.5);
  dropout.seed_from(0, "a");
  const auto mask = mask_of(dropout, 1, 2, 3);
  EXPECT_TRUE(torch::equal(mask, mask_of(dropout, 1, 2, 3)));
  EXPECT_FALSE(torch::equal(mask, mask_of(dropout, 0, 2, 3)));
  EXPECT_FALSE(torch::equal(mask, mask_of(dropout, 1, 0, 3)));
  EXPECT_FALSE(torch::equal(mask, mask_of(dropout, 1, 2, 0)));
  dropout.seed_from(0, "b");
  EXPECT_FALSE(torch::equal(mask, mask_of(dropout, 1, 2, 3)));
}

TEST(Dropout, DrawsAnewWhenCalledAgainInAStep) {
  Dropout dropout(0.5);
  const RandomScope scope(1, 2, 3);
  const auto ones = torch::ones({100});
  EXPECT_FALSE(torch::equal(dropout.forward(ones), dropout.forward(ones)));
}

TEST(Dropout, GivesReplicasTheirMasksAlsoWhenTheyRunAtTheSameTime) {
  Dropout reference(0.5);
  std::vector<at::Tensor> masks(4);
  {
    std::vector<std::jthread> threads;
    for (std::int64_t replica = 0; replica < 4; ++replica) {
      threads.emplace_back([&masks, replica] {
        Dropout dropout(0.5);
        masks[static_cast<std::size_t>(replica)] = mask_of(dropout, 7, 8, replica);
      });
    }
  }
  for (std::int64_t replica = 0; replica < 4; ++replica) {
    EXPECT_TRUE(
        torch::equal(masks[static_cast<std::size_t>(replica)], mask_of(reference, 7, 8, replica)));
  }
}

TEST(Dropout, HasTheSameMaskInEveryPrecision) {
  Dropout dropout(0.25);
  const auto floats = mask_of(dropout, 1, 1, 1);
  const RandomScope scope(1, 1, 1);
  const auto doubles = dropout.forward(torch::ones({5000}, torch::kDouble));
  EXPECT_TRUE(torch::equal(floats.eq(0), doubles.eq(0)));
}

TEST(Dropout, DoesNothingInEvaluationAndNeedsAScopeInTraining) {
  Dropout dropout(0.5);
  EXPECT_THROW(dropout.forward(torch::ones({3})), FailedPrecondition);
  dropout.eval();
  EXPECT_TRUE(torch::equal(dropout.forward(torch::ones({3})), torch::ones({3})));
  EXPECT_THROW(Dropout(1.0), InvalidArgument);
  EXPECT_THROW(Dropout(-0.1), InvalidArgument);
}

TEST(Dropout, PassesGradientsThroughItsMask) {
  Dropout dropout(0.5);
  const RandomScope scope(1, 1, 1);
  const auto x = torch::ones({50}, torch::requires_grad());
  const auto y = dropout.forward(x);
  y.sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), y.detach()));
}

TEST(RandomScope, SaysWhatItsKeysAreMadeOf) {
  RandomScope scope(1, 2, 3);
  const auto layer = derive_key(0, "layer");
  const auto first = scope.next_key(layer);
  EXPECT_EQ(first, derive_key(RandomScope::key_of(1, 2, 3), layer, 0));
  EXPECT_EQ(derive_key(scope.key(), layer, scope.next_draw(layer)),
            derive_key(RandomScope::key_of(1, 2, 3), layer, 1));
  EXPECT_EQ(scope.key_on_device(), nullptr);
}

TEST(RandomScope, LetsNobodyDrawOnTheCpuWhereTheKeyIsOnADevice) {
  const std::uint64_t key = 7;
  RandomScope scope(&key);
  EXPECT_EQ(scope.key_on_device(), &key);
  EXPECT_THROW(scope.next_key(1), FailedPrecondition);
}

TEST(RandomScope, GivesTheOuterOneBack) {
  EXPECT_EQ(RandomScope::current(), nullptr);
  RandomScope outer(1, 1, 1);
  {
    RandomScope inner(1, 1, 2);
    EXPECT_EQ(RandomScope::current(), &inner);
  }
  EXPECT_EQ(RandomScope::current(), &outer);
}

TEST(Mlp, HasTheVariableNamesOfDnnClassifier) {
  Mlp mlp({.inputs = 4, .hidden_units = {3, 2}, .outputs = 1});
  std::vector<std::string> names;
  for (const auto& parameter : mlp.named_parameters()) names.push_back(parameter.key());
  EXPECT_THAT(names,
              ElementsAre("hiddenlayer_0.kernel", "hiddenlayer_0.bias", "hiddenlayer_1.kernel",
                          "hiddenlayer_1.bias", "logits.kernel", "logits.bias"));
  EXPECT_THAT(mlp.forward(torch::ones({5, 4})).sizes().vec(), ElementsAre(5, 1));
}

TEST(Mlp, NormalisesAfterActivationAndDropout) {
  Mlp mlp({.inputs = 4, .hidden_units = {8}, .outputs = 1, .dropout = 0.5, .batch_norm = true});
  const RandomScope scope(1, 1, 1);
  mlp.forward(torch::ones({64, 4}));
  // Statistics of what dropout left of relu: never negative, and they vary although every row is
  // the same.
  const auto mean = mlp.named_buffers()["batchnorm_0.running_mean"];
  const auto variance = mlp.named_buffers()["batchnorm_0.running_var"];
  EXPECT_GE(mean.min().item<float>(), 0.0F);
  EXPECT_GT(mean.max().item<float>(), 0.0F);
  EXPECT_LT(mean.max().item<float>(), 0.01F);
  EXPECT_TRUE(variance.ne(0.999F).any().item<bool>());
}

}  // namespace
}  // namespace muster
