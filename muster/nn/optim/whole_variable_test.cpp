#include <gmock/gmock.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/nn/optim/slot_count.h"
#include "muster/nn/optim/updater.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

OptimizersByPrefix whole_and_others() {
  return {{"", adamw({.learning_rate = 0.1})},
          {"factored", adafactor({.learning_rate = 0.1})},
          {"matrix", muon({.learning_rate = 0.1})},
          {"trusted", lamb({.learning_rate = 0.1})}};
}

std::vector<VariableSpec> specs_of_whole() {
  return {{.name = "bias", .shape = {5}},
          {.name = "factored", .shape = {6, 5}, .whole = true},
          {.name = "matrix", .shape = {3, 7}, .whole = true},
          {.name = "other", .shape = {40}},
          {.name = "trusted", .shape = {9}, .whole = true}};
}

void fill(const Variables& variables) {
  for (const Variable& variable : variables.all()) {
    variable.value.copy_(torch::arange(variable.value.numel(), at::kFloat)
                             .mul_(0.7F)
                             .sin_()
                             .view_as(variable.value));
  }
}

Gradients gradients_at(const Variables& variables, std::int64_t step) {
  Gradients gradients = variables.make_gradients();
  for (const Variable& variable : variables.all()) {
    at::Tensor of = gradients.of(variable);
    of.copy_(torch::arange(of.numel(), at::kFloat)
                 .mul_(0.37F)
                 .add_(static_cast<float>(step))
                 .sin_()
                 .view_as(of));
  }
  return gradients;
}

TEST(WholeVariables, AreUpdatedByTheirHolderWithTheSameBits) {
  const Variables one(specs_of_whole());
  const Variables two(specs_of_whole());
  fill(one);
  fill(two);
  Updater all(one, whole_and_others());
  const std::int64_t cut = two.find("other")->offset + 16;
  Updater first(two, whole_and_others(), FlatRange{0, cut});
  Updater second(two, whole_and_others(), FlatRange{cut, two.flat().numel()});
  for (std::int64_t step = 0; step < 3; ++step) {
    const Gradients gradients = gradients_at(one, step);
    all.apply(gradients, step);
    first.apply(gradients, step);
    second.apply(gradients, step);
  }
  EXPECT_TRUE(torch::equal(one.flat(), two.flat()));
  std::size_t whole_parts = 0;
  for (const NamedTensor& slot : all.tensors()) {
    if (slot.tensor.dim() == 0) continue;
    for (const Updater* holder : {&first, &second}) {
      for (const TensorPart& part : holder->parts()) {
        if (part.name != slot.name || part.empty()) continue;
        EXPECT_EQ(at::IntArrayRef(part.shape), slot.tensor.sizes()) << part.name;
        if (!part.is_whole()) continue;
        ++whole_parts;
        EXPECT_TRUE(torch::equal(part.rows(), slot.tensor)) << part.name;
      }
    }
  }
  EXPECT_EQ(whole_parts, 2U + 2 + 1 + 2);  // of adamw's bias, and of the three
}

TEST(WholeVariables, SlotsOfAdafactorHaveTheirOwnShapes) {
  const Variables variables(specs_of_whole());
  Updater updater(variables, whole_and_others());
  for (const NamedTensor& slot : updater.tensors()) {
    if (slot.name == "factored/Adafactor") {
      EXPECT_EQ(slot.tensor.sizes(), at::IntArrayRef({6, 1}));
    }
    if (slot.name == "factored/Adafactor_1") {
      EXPECT_EQ(slot.tensor.sizes(), at::IntArrayRef({1, 5}));
    }
  }
  const std::vector<std::int64_t> shape{600, 500};
  EXPECT_EQ(slot_elements(whole_and_others(), "factored", shape), 1100U);
  EXPECT_EQ(slot_elements(whole_and_others(), "other", shape), 2U * 600 * 500);
  EXPECT_TRUE(is_kept_whole(whole_and_others(), "matrix/kernel"));
  EXPECT_FALSE(is_kept_whole(whole_and_others(), "bias"));
}

TEST(WholeVariables, WhatAnOptimizerCannotTrainIsAnErrorBeforeTheFirstStep) {
  const Variables variables({{.name = "dense/kernel", .shape = {4, 3}},
                             {.name = "dense/bias", .shape = {3}},
                             {.name = "words", .shape = {20, 2}, .sparse = true}});
  EXPECT_THAT(message_of([&] {
                Updater updater(variables, {{"", adam()}, {"dense", muon()}});
              }),
              AllOf(HasSubstr("muon: `dense/bias` of shape [3] is no matrix"),
                    HasSubstr("{\"*/bias\", adamw()}")));
  EXPECT_THAT(message_of([&] { Updater updater(variables, lamb()); }),
              AllOf(HasSubstr("`words` is a table"), HasSubstr("{\"words\", adam()}")));
}

TEST(WholeVariables, ACustomOptimizerSeesTheShape) {
  const Variables variables({{.name = "a", .shape = {2, 3}}, {.name = "b", .shape = {4}}});
  Updater updater(variables, custom_optimizer({.name = "fill",
                                               .learning_rate = 0.1,
                                               .update =
                                                   [](const ElementUpdate& u) {
                                                     for (float& value : u.values) {
                                                       value = static_cast<float>(u.shape.size());
                                                     }
                                                   },
                                               .whole_variables = true}));
  updater.apply(variables.make_gradients(), 0);
  EXPECT_TRUE(torch::equal(variables.all()[0].value, torch::full({2, 3}, 2.0F)));
  EXPECT_TRUE(torch::equal(variables.all()[1].value, torch::full({4}, 1.0F)));
}

}  // namespace
}  // namespace muster
