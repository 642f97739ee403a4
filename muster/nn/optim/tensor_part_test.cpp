#include "muster/nn/optim/tensor_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "muster/nn/optim/moving_average.h"
#include "muster/nn/optim/updater.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

/// Two optimizers' dense variables, side by side.
Variables four_variables() {
  return Variables({{.name = "linear/bias", .shape = {3}},
                    {.name = "linear/kernel", .shape = {6, 16}},
                    {.name = "dnn/kernel", .shape = {8, 4}},
                    {.name = "dnn/bias", .shape = {8}}});
}

OptimizersByPrefix optimizers_of_both() {
  return {{"linear", ftrl({.learning_rate = 0.1, .l1 = 0.01})},
          {"dnn", adam({.learning_rate = 0.1})}};
}

// In the middle of a kernel of each optimizer, and at a variable's beginning.
std::vector<FlatRange> cuts_of(const Variables& variables) {
  const std::int64_t size = variables.flat().numel();
  return {{0, 48}, {48, 128}, {128, size}};
}

void fill_all(const Variables& variables, double value) {
  for (const Variable& variable : variables.all()) variable.value.fill_(value);
}

Gradients step_gradients_of(const Variables& variables, std::int64_t step) {
  Gradients gradients = variables.make_gradients();
  for (const Variable& variable : variables.all()) {
    const at::Tensor of = gradients.of(variable).view({-1});
    of.copy_(torch::arange(of.numel(), at::kFloat).mul_(0.37).add_(step).sin_());
  }
  return gradients;
}

/// Every tensor that holders have in parts, put together.
std::map<std::string, at::Tensor> together(const std::vector<std::vector<TensorPart>>& holders) {
  std::map<std::string, at::Tensor> whole;
  for (const auto& parts : holders) {
    for (const TensorPart& part : parts) {
      auto& to = whole[part.name];
      if (!to.defined()) to = torch::full(part.shape, -1.0F);
      to.view({-1}).narrow(0, part.first, part.last - part.first).copy_(part.values);
    }
  }
  return whole;
}

TEST(TensorPart, KnowsItsRowsAndWhereTheyBegin) {
  const Variables variables = four_variables();
  variables.flat().copy_(torch::arange(variables.flat().numel(), at::kFloat));
  const auto parts = value_parts(variables, {48, 128});
  EXPECT_TRUE(parts[0].empty());
  EXPECT_EQ(parts[1].name, "linear/kernel");
  EXPECT_FALSE(parts[1].is_whole());
  EXPECT_THAT(parts[1].start(), ElementsAre(2, 0));
  EXPECT_TRUE(at::equal(parts[1].rows(), variables.all()[1].value.narrow(0, 2, 4)));
  EXPECT_THAT(parts[2].start(), ElementsAre(0, 0));
  EXPECT_THAT(parts[2].rows().sizes(), ElementsAre(4, 4));
  EXPECT_TRUE(parts[3].empty());
}

TEST(TensorPart, UpdatersOfPartsDoTogetherWhatOneOfAllDoes) {
  const at::NoGradGuard no_grad;
  const Variables whole = four_variables();
  fill_all(whole, 0.5);
  Updater updater(whole, optimizers_of_both());
  MovingAverage average(whole, {.decay = 0.75});

  const Variables shared = four_variables();
  fill_all(shared, 0.5);
  std::vector<Updater> updaters;
  std::vector<MovingAverage> averages;
  for (const FlatRange& range : cuts_of(shared)) {
    updaters.emplace_back(shared, optimizers_of_both(), FlatRange{});
    EXPECT_EQ(updaters.back().parts().front().values.numel(), 0);
    updaters.back().hold(range);
    averages.emplace_back(shared, MovingAverageOptions{.decay = 0.75}, FlatRange{});
    averages.back().hold(range);
  }
  for (std::int64_t step = 0; step < 4; ++step) {
    const Gradients gradients = step_gradients_of(whole, step);
    updater.apply(gradients, step);
    average.update(gradients, step);
    for (Updater& one : updaters) one.apply(gradients, step);
    for (MovingAverage& one : averages) one.update(gradients, step);
  }
  for (const Variable& variable : whole.all()) {
    EXPECT_TRUE(at::equal(variable.value, shared.find(variable.spec.name)->value))
        << variable.spec.name;
  }
  std::vector<std::vector<TensorPart>> held;
  held.reserve(updaters.size() + averages.size());
  for (const Updater& one : updaters) held.push_back(one.parts());
  for (const MovingAverage& one : averages) held.push_back(one.parts());
  const auto parts = together(held);
  std::vector<NamedTensor> expected = updater.tensors();
  std::ranges::move(average.tensors(), std::back_inserter(expected));
  std::size_t compared = 0;
  for (const NamedTensor& named : expected) {
    if (named.tensor.dim() == 0) continue;  // The powers of an Adam, which all have.
    EXPECT_TRUE(at::equal(parts.at(named.name), named.tensor)) << named.name;
    ++compared;
  }
  EXPECT_EQ(compared, parts.size());
}

TEST(TensorPart, AnUpdaterThatHoldsOthersForgetsWhatItHeld) {
  const Variables variables = four_variables();
  Updater updater(variables, optimizers_of_both(), FlatRange{0, 48});
  updater.apply(step_gradients_of(variables, 0), 0);
  updater.hold({128, variables.flat().numel()});
  updater.hold({0, 48});
  for (const TensorPart& part : updater.parts()) {
    const bool is_ftrl_sum = part.name.ends_with("/Ftrl");
    EXPECT_TRUE(at::equal(part.values, torch::full_like(part.values, is_ftrl_sum ? 0.1F : 0.0F)))
        << part.name;
  }
}

}  // namespace
}  // namespace muster
