#include "muster/nn/optim/updater.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/nn/optim/device_update_internal.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

Variables wide_and_deep() {
  return Variables({{.name = "linear/bias", .shape = {3}},
                    {.name = "dnn/kernel", .shape = {5, 3}},
                    {.name = "linear/weights", .shape = {20, 2}, .sparse = true},
                    {.name = "dnn/mean", .shape = {3}, .trainable = false}});
}

RowGradient rows_two_and_seven() {
  return {torch::tensor({2, 7}, at::kLong), at::full({2, 2}, 0.5f)};
}

std::vector<Optimizer> all_optimizers() {
  return {sgd({.learning_rate = 0.1}),
          sgd({.learning_rate = 0.1, .weight_decay = 0.1}),
          momentum({.learning_rate = 0.1, .weight_decay = 0.1}),
          momentum({.learning_rate = 0.1, .nesterov = true}),
          adagrad({.learning_rate = 0.1}),
          proximal_adagrad({.learning_rate = 0.1, .l1 = 0.1, .l2 = 0.1}),
          adam({.learning_rate = 0.1}),
          adamw({.learning_rate = 0.1}),
          rmsprop({.learning_rate = 0.1, .momentum = 0.5}),
          rmsprop({.learning_rate = 0.1, .centered = true}),
          ftrl({.learning_rate = 0.1, .l1 = 0.05, .l2 = 0.1, .l2_shrinkage = 0.1}),
          ftrl({.learning_rate = 0.1, .learning_rate_power = -0.7}),
          lion({.learning_rate = 0.1, .weight_decay = 0.1})};
}

/// Trains two copies of a layer on the same gradients, ours and with a libtorch optimizer, and
/// returns the largest difference of their weights.
template <typename TorchOptimizer, typename TorchOptions>
float difference_to(const TorchOptions& torch_options, const Optimizer& optimizer) {
  torch::manual_seed(1);
  const auto ours = std::make_shared<torch::nn::LinearImpl>(37, 19);
  const auto theirs = std::make_shared<torch::nn::LinearImpl>(37, 19);
  const Variables variables = Variables::adopt(*ours);
  const at::NoGradGuard no_grad;
  theirs->weight.copy_(ours->weight);
  theirs->bias.copy_(ours->bias);
  AttachedModule attached = variables.attach(ours);
  Updater updater(variables, {{"", optimizer}});
  TorchOptimizer torch_optimizer(theirs->parameters(), torch_options);
  for (std::int64_t step = 0; step < 20; ++step) {
    const at::Tensor weight = torch::randn({19, 37});
    const at::Tensor bias = torch::randn({19});
    theirs->weight.mutable_grad() = weight;
    theirs->bias.mutable_grad() = bias;
    ours->weight.grad().copy_(weight);
    ours->bias.grad().copy_(bias);
    torch_optimizer.step();
    updater.apply(attached.gradients(), step);
  }
  return (theirs->weight - ours->weight).abs().max().item<float>();
}

TEST(Updater, AgreesWithLibtorchWhereTheFormulasAreTheSame) {
  EXPECT_LT(
      difference_to<torch::optim::SGD>(torch::optim::SGDOptions(0.1), sgd({.learning_rate = 0.1})),
      1e-5);
  EXPECT_LT(difference_to<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9),
                                             momentum({.learning_rate = 0.1})),
            1e-5);
  EXPECT_LT(
      difference_to<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true),
                                       momentum({.learning_rate = 0.1, .nesterov = true})),
      1e-5);
}

// Epsilon stands elsewhere (optimizer.h); beside gradients near 1 that is not seen.
TEST(Updater, AgreesWithLibtorchsAdamUpToTheSenseOfEpsilon) {
  EXPECT_LT(difference_to<torch::optim::Adam>(torch::optim::AdamOptions(0.01),
                                              adam({.learning_rate = 0.01})),
            1e-5);
  EXPECT_LT(difference_to<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01).weight_decay(0.1),
                                               adamw({.learning_rate = 0.01, .weight_decay = 0.1})),
            1e-5);
  EXPECT_GT(difference_to<torch::optim::Adam>(torch::optim::AdamOptions(0.01).eps(0.1),
                                              adam({.learning_rate = 0.01, .epsilon = 0.1})),
            1e-3);
}

TEST(Updater, TakesTheLearningRateOfTheStep) {
  const Variables variables({{.name = "w", .shape = {1}}});
  Updater updater(variables, {{"", sgd({.learning_rate = piecewise({0}, {1.0, 0.25})})}});
  Gradients gradients = variables.make_gradients();
  gradients.of(variables.all()[0]).fill_(1);
  updater.apply(gradients, 0);
  EXPECT_EQ(variables.all()[0].value.item<float>(), -1.0f);
  updater.apply(gradients, 1);
  EXPECT_EQ(variables.all()[0].value.item<float>(), -1.25f);
  EXPECT_EQ(updater.learning_rates(1)[0].learning_rate, 0.25);
}

TEST(Updater, GivesEachVariableToTheLongestPrefix) {
  const Variables variables = wide_and_deep();
  Updater updater(variables, {{"linear/", ftrl({.learning_rate = 0.2})},
                              {"", adagrad({.learning_rate = 0.05})},
                              {"linear/bias", adam()}});
  EXPECT_THAT(names_of(updater.tensors()),
              ElementsAre("linear/weights/Ftrl", "linear/weights/Ftrl_1", "dnn/kernel/Adagrad",
                          "linear/bias/Adam", "linear/bias/Adam_1", "beta1_power", "beta2_power"));
  EXPECT_THAT(updater.descriptions()[1], HasSubstr("prefix=\"\" variables=1 adagrad("));
}

TEST(Updater, GivesAVariableToAPatternBeforeAnyPrefix) {
  const Variables variables = wide_and_deep();
  Updater updater(variables, {{"linear/", ftrl({.learning_rate = 0.2})},
                              {"", adagrad({.learning_rate = 0.05})},
                              {"*/bias", adam()}});
  EXPECT_THAT(names_of(updater.tensors()),
              ElementsAre("linear/weights/Ftrl", "linear/weights/Ftrl_1", "dnn/kernel/Adagrad",
                          "linear/bias/Adam", "linear/bias/Adam_1", "beta1_power", "beta2_power"));
  EXPECT_THAT(message_of([&] {
                Updater(variables, {{"", adam()}, {"*/gamma", adam()}});
              }),
              HasSubstr("prefix `*/gamma` has no variable"));
  EXPECT_THAT(message_of([&] {
                Updater(variables, {{"*/bias", adam()}});
              }),
              HasSubstr("matches `dnn/kernel`, `linear/weights`"));
}

TEST(Updater, UpdatesEveryVariableWithItsOwnOptimizer) {
  const Variables variables({{.name = "a/x", .shape = {3}},
                             {.name = "b/x", .shape = {3}},
                             {.name = "a/y", .shape = {3}}});
  Updater updater(variables,
                  {{"a/", sgd({.learning_rate = 1.0})}, {"b/", sgd({.learning_rate = 0.5})}});
  Gradients gradients = variables.make_gradients();
  gradients.flat.fill_(1);
  updater.apply(gradients, 0);
  EXPECT_TRUE(at::equal(variables.find("a/x")->value, at::full({3}, -1.0f)));
  EXPECT_TRUE(at::equal(variables.find("b/x")->value, at::full({3}, -0.5f)));
  EXPECT_TRUE(at::equal(variables.find("a/y")->value, at::full({3}, -1.0f)));
}

TEST(Updater, NumbersThePowersOfASecondAdam) {
  const Variables variables({{.name = "a/x", .shape = {3}}, {.name = "b/x", .shape = {3}}});
  const Updater updater(variables, {{"a/", adam()}, {"b/", adamw()}});
  EXPECT_THAT(names_of(updater.tensors()),
              ElementsAre("a/x/Adam", "a/x/Adam_1", "beta1_power", "beta2_power", "b/x/AdamW",
                          "b/x/AdamW_1", "beta1_power_1", "beta2_power_1"));
}

TEST(Updater, PutsScopesIntoNamesAndFindsTheVariableAgain) {
  const Variables variables({{.name = "a/x", .shape = {3}}, {.name = "b", .shape = {3}}});
  const Updater updater(variables, {{"a/", adam(), {.slots = "t_0/", .scalars = "a/head/"}},
                                    {"b", adam(), {.scalars = "head/"}}});
  EXPECT_THAT(
      names_of(updater.tensors()),
      ElementsAre("a/x/t_0/Adam", "a/x/t_0/Adam_1", "a/head/beta1_power", "a/head/beta2_power",
                  "b/Adam", "b/Adam_1", "head/beta1_power", "head/beta2_power"));
  EXPECT_EQ(variables.owner_of_slot("a/x/t_0/Adam"), variables.find("a/x"));
  EXPECT_EQ(variables.owner_of_slot("b/Adam_1"), variables.find("b"));
  EXPECT_EQ(variables.owner_of_slot("a/head/beta1_power"), nullptr);
}

TEST(Updater, NamesVariablesWithoutAnOptimizerAndPrefixesWithoutAVariable) {
  const Variables variables = wide_and_deep();
  const Optimizer any = sgd({.learning_rate = 0.1});
  EXPECT_THAT(message_of([&] {
                Updater(variables, {{"dnn/", any}});
              }),
              HasSubstr("matches `linear/bias`, `linear/weights`"));
  EXPECT_THAT(message_of([&] {
                Updater(variables, {{"", any}, {"rnn/", any}});
              }),
              HasSubstr("prefix `rnn/` has no variable"));
  EXPECT_THAT(message_of([&] {
                Updater(variables, {{"", any}, {"", any}});
              }),
              HasSubstr("two optimizers have the prefix ``"));
}

TEST(Updater, ChangesOnlyTheTouchedRowsOfATableAndItsSlots) {
  for (const Optimizer& optimizer : all_optimizers()) {
    const Variables variables = wide_and_deep();
    const at::Tensor table = variables.find("linear/weights")->value;
    table.fill_(1);
    Updater updater(variables, {{"", optimizer}});
    std::vector<NamedTensor> slots;
    for (const NamedTensor& tensor : updater.tensors()) {
      if (tensor.name.starts_with("linear/weights/")) {
        slots.push_back({tensor.name, tensor.tensor.clone()});
      }
    }
    Gradients gradients = variables.make_gradients();
    gradients.rows[0] = rows_two_and_seven();
    updater.apply(gradients, 0);
    updater.apply(gradients, 1);
    const at::Tensor touched = at::zeros({20}, at::kBool);
    touched[2] = true;
    touched[7] = true;
    const auto changed_rows = [](const at::Tensor& a, const at::Tensor& b) {
      return a.ne(b).any(1);
    };
    EXPECT_TRUE(at::equal(changed_rows(table, at::ones({20, 2})), touched))
        << optimizer.description();
    for (const NamedTensor& tensor : updater.tensors()) {
      for (const NamedTensor& before : slots) {
        if (before.name != tensor.name) continue;
        EXPECT_FALSE(
            changed_rows(tensor.tensor, before.tensor).logical_and(~touched).any().item<bool>())
            << before.name;
      }
    }
  }
}

TEST(Updater, GivesTheSameBitsForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  for (const Optimizer& optimizer : all_optimizers()) {
    std::vector<at::Tensor> results;
    for (const int count : {1, 3}) {
      at::set_num_threads(count);
      const Variables variables({{.name = "w", .shape = {200'003}},
                                 {.name = "table", .shape = {90'000, 2}, .sparse = true}});
      torch::manual_seed(7);
      variables.flat().normal_();
      Updater updater(variables, {{"", optimizer}});
      Gradients gradients = variables.make_gradients();
      gradients.flat.normal_();
      gradients.rows[0] = {at::arange(90'000, at::kLong), torch::randn({90'000, 2})};
      for (std::int64_t step = 0; step < 3; ++step) updater.apply(gradients, step);
      results.push_back(at::cat({variables.flat(), variables.find("table")->value.view({-1})}));
    }
    EXPECT_TRUE(at::equal(results[0], results[1])) << optimizer.description();
  }
  at::set_num_threads(threads);
}

TEST(Updater, GoesOnExactlyFromARestoredState) {
  for (const Optimizer& optimizer : all_optimizers()) {
    const Variables whole = wide_and_deep();
    const Variables resumed = wide_and_deep();
    whole.flat().fill_(0.5);
    Updater updater(whole, {{"", optimizer}});
    Gradients gradients = whole.make_gradients();
    gradients.flat.fill_(0.3);
    gradients.rows[0] = rows_two_and_seven();
    for (std::int64_t step = 0; step < 3; ++step) updater.apply(gradients, step);
    Updater again(resumed, {{"", optimizer}});
    restore(resumed.tensors(), whole.tensors());
    restore(again.tensors(), updater.tensors());
    updater.apply(gradients, 3);
    again.apply(gradients, 3);
    for (std::size_t i = 0; i < whole.all().size(); ++i) {
      EXPECT_TRUE(at::equal(whole.all()[i].value, resumed.all()[i].value))
          << optimizer.description();
    }
  }
}

TEST(Restore, NamesWhatIsMissingAndBothShapes) {
  const std::vector<NamedTensor> targets{{"a", at::zeros({2, 3})}, {"b", at::zeros({1})}};
  const std::vector<NamedTensor> other_shape{{"a", at::ones({3, 2})}, {"b", at::ones({1})}};
  EXPECT_EQ(message_of([&] { restore(targets, other_shape); }),
            "`a` has shape [2, 3] here and [3, 2] in the saved state");
  const std::vector<NamedTensor> missing{{"a", at::ones({2, 3})}};
  EXPECT_THAT(message_of([&] { restore(targets, missing); }), HasSubstr("has no `b`"));
  EXPECT_EQ(targets[0].tensor.sum().item<float>(), 0.0f);
  const std::vector<NamedTensor> other_type{{"a", at::ones({2, 3}, at::kInt)},
                                            {"b", at::ones({1})}};
  EXPECT_EQ(message_of([&] { restore(targets, other_type); }),
            "`a` is Float here and Int in the saved state");
}

TEST(Updater, RefusesGradientsOfAnotherLayout) {
  const Variables variables = wide_and_deep();
  Updater updater(variables, {{"", sgd({.learning_rate = 0.1})}});
  EXPECT_THROW(updater.apply({.flat = at::zeros({7})}, 0), InvalidArgument);
  Gradients gradients = variables.make_gradients();
  gradients.rows[0] = {torch::tensor({20}, at::kLong), at::ones({1, 2})};
  gradients.flat.fill_(1);
  EXPECT_THROW(updater.apply(gradients, 0), OutOfRange);
  EXPECT_EQ(variables.flat().sum().item<float>(), 0.0f);
}

TEST(Updater, ChangesNothingWhereAnFtrlHasNoRate) {
  const Variables variables = wide_and_deep();
  Updater updater(variables,
                  {{"", sgd({.learning_rate = 0.1})}, {"linear", ftrl({.learning_rate = 0.0})}});
  Gradients gradients = variables.make_gradients();
  gradients.flat.fill_(1);
  EXPECT_THAT(message_of([&] { updater.apply(gradients, 0); }), HasSubstr("must be positive"));
  EXPECT_EQ(variables.flat().sum().item<float>(), 0.0f);
}

TEST(DeviceUpdate, AgreesWithTheLoopsOfTheCpu) {
  for (const Optimizer& optimizer : all_optimizers()) {
    const Variables variables = wide_and_deep();
    torch::manual_seed(3);
    variables.flat().normal_();
    const at::Tensor table = variables.find("linear/weights")->value;
    table.normal_();
    const at::Tensor flat = variables.flat().clone();
    const at::Tensor device_table = table.clone();
    std::vector<at::Tensor> flat_slots, table_slots;
    for (const auto& slot : internal::slots_of(optimizer)) {
      flat_slots.push_back(at::full_like(flat, slot.initial));
      table_slots.push_back(at::full_like(table, slot.initial));
    }
    Updater updater(variables, {{"", optimizer}});
    Gradients gradients = variables.make_gradients();
    auto powers = internal::first_powers(optimizer).value_or(internal::BetaPowers{});
    for (std::int64_t step = 0; step < 5; ++step) {
      for (const Variable& variable : variables.all()) {
        if (variable.dense()) gradients.of(variable).normal_();
      }
      gradients.rows[0] = {torch::tensor({2, 7}, at::kLong), torch::randn({2, 2})};
      const auto rule = internal::rule_of(optimizer, 0.1, powers);
      internal::device_update(rule, flat, gradients.flat, flat_slots);
      internal::device_update_rows(rule, gradients.rows[0], device_table, table_slots);
      updater.apply(gradients, step);
      powers = internal::next_powers(optimizer, powers);
    }
    EXPECT_TRUE(at::allclose(flat, variables.flat(), 1e-4, 1e-5)) << optimizer.description();
    EXPECT_TRUE(at::allclose(device_table, table, 1e-4, 1e-5)) << optimizer.description();
  }
}

/// Trains a table and a layer for some steps on one device, and returns all variables on the CPU.
std::vector<at::Tensor> trained_on(c10::Device device, const Optimizer& optimizer) {
  struct Network : torch::nn::Module {
    Network() {
      table = register_module(
          "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(50, 8).sparse(true)));
      dense = register_module("dense", torch::nn::Linear(8, 3));
    }
    torch::nn::Embedding table{nullptr};
    torch::nn::Linear dense{nullptr};
  };
  torch::manual_seed(5);
  const auto network = std::make_shared<Network>();
  network->to(device);
  const Variables variables = Variables::adopt(
      *network, {.sparse = [](std::string_view name) { return name == "table/weight"; }});
  AttachedModule attached = variables.attach(network);
  Updater updater(variables, {{"", optimizer}});
  const at::Tensor ids = torch::tensor({3, 1, 3, 49, 7}, at::kLong).to(device);
  for (std::int64_t step = 0; step < 5; ++step) {
    attached.zero();
    network->dense(network->table(ids)).square().sum().backward();
    attached.collect();
    updater.apply(attached.gradients(), step);
  }
  std::vector<at::Tensor> values;
  for (const Variable& variable : variables.all()) values.push_back(variable.value.cpu());
  return values;
}

/// Momentum, as a program would define it; `factor` is what is kept of the sum.
Optimizer momentum_as_a_function(double factor) {
  return custom_optimizer({.name = "mine",
                           .learning_rate = 0.1,
                           .constants = {{"factor", factor}},
                           .slots = {{"Mine", 0}},
                           .update = [factor](const ElementUpdate& u) {
                             const auto keep = static_cast<float>(factor);
                             const auto rate = static_cast<float>(u.learning_rate);
                             for (std::size_t i = 0; i < u.values.size(); ++i) {
                               u.slots[0][i] = u.slots[0][i] * keep + u.gradients[i];
                               u.values[i] -= rate * u.slots[0][i];
                             }
                           }});
}

TEST(CustomOptimizer, UpdatesTablesAndLayersLikeARule) {
  const auto expected = trained_on(at::kCPU, momentum({.learning_rate = 0.1, .momentum = 0.5}));
  const auto values = trained_on(at::kCPU, momentum_as_a_function(0.5));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(at::allclose(values[i], expected[i], 1e-5, 1e-6)) << i;
  }
}

TEST(CustomOptimizer, HasItsNameItsConstantsAndItsSlots) {
  const Optimizer optimizer = momentum_as_a_function(0.5);
  EXPECT_EQ(optimizer.description(), "mine(learning_rate = constant 0.1, factor = 0.5)");
  const Variables variables = wide_and_deep();
  const Updater updater(variables, {{"", optimizer}});
  for (const NamedTensor& slot : updater.tensors()) EXPECT_THAT(slot.name, HasSubstr("/Mine"));
  EXPECT_THROW(custom_optimizer({.name = "none", .learning_rate = 0.1}), InvalidArgument);
  const auto nothing = [](const ElementUpdate&) {};
  EXPECT_THROW(custom_optimizer({.name = "twice",
                                 .learning_rate = 0.1,
                                 .slots = {{"A", 0}, {"A", 0}},
                                 .update = nothing}),
               InvalidArgument);
}

TEST(Updater, TrainsOnAGpuAsOnTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  for (const Optimizer& optimizer : all_optimizers()) {
    const auto cpu = trained_on(at::kCPU, optimizer);
    const auto gpu = trained_on(at::kCUDA, optimizer);
    for (std::size_t i = 0; i < cpu.size(); ++i) {
      EXPECT_TRUE(at::allclose(gpu[i], cpu[i], 1e-3, 1e-4)) << optimizer.description();
    }
  }
}

}  // namespace
}  // namespace muster
