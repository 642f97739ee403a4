#include "muster/nn/optim/variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// An embedding of 10 rows of 4 into a linear layer, with batch norm's buffers.
struct Network : torch::nn::Module {
  Network() {
    table = register_module("table",
                            torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 4).sparse(true)));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    dense = register_module("dense", torch::nn::Linear(4, 3));
  }
  at::Tensor forward(const at::Tensor& ids) { return dense(norm(table(ids))).sum(); }

  torch::nn::Embedding table{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear dense{nullptr};
};

AdoptOptions with_sparse_table() {
  return {.sparse = [](std::string_view name) { return name == "table/weight"; }};
}

TEST(Variables, ListsParametersAndBuffersUnderTheirNames) {
  Network network;
  const Variables variables = Variables::adopt(network, with_sparse_table());
  std::vector<std::string> trained, others;
  for (const Variable& variable : variables.all()) {
    (variable.spec.trainable ? trained : others).push_back(variable.spec.name);
  }
  EXPECT_THAT(trained, ElementsAre("table/weight", "norm/weight", "norm/bias", "dense/weight",
                                   "dense/bias"));
  EXPECT_THAT(others,
              ElementsAre("norm/running_mean", "norm/running_var", "norm/num_batches_tracked"));
  EXPECT_EQ(variables.parameter_count(), 40 + 4 + 4 + 12 + 3);
  EXPECT_EQ(variables.sparse_count(), 1u);
}

TEST(Variables, TakesTheNamesItIsGiven) {
  torch::nn::Linear layer(2, 3);
  const Variables variables = Variables::adopt(*layer, {.name = [](std::string_view name) {
    return name == "weight" ? "dnn/logits/kernel" : "dnn/logits/bias";
  }});
  EXPECT_NE(variables.find("dnn/logits/kernel"), nullptr);
  EXPECT_EQ(variables.find("weight"), nullptr);
}

TEST(Variables, KeepsDenseVariablesInOneAlignedBufferWithTheModulesValues) {
  Network network;
  const at::Tensor weight = network.dense->weight.detach().clone();
  const Variables variables = Variables::adopt(network, with_sparse_table());
  for (const Variable& variable : variables.all()) {
    if (!variable.dense()) continue;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(variable.value.data_ptr()) % 64, 0u);
    EXPECT_EQ(variable.value.data_ptr<float>(),
              variables.flat().data_ptr<float>() + variable.offset);
  }
  EXPECT_TRUE(at::equal(variables.find("dense/weight")->value, weight));
}

TEST(AttachedModule, LeavesGradientsInItsFlatBuffer) {
  const auto network = std::make_shared<Network>();
  const Variables variables = Variables::adopt(*network, with_sparse_table());
  AttachedModule attached = variables.attach(network);
  for (int pass = 0; pass < 2; ++pass) {
    attached.zero();
    network->forward(torch::tensor({1, 7}, at::kLong)).backward();
    attached.collect();
  }
  const Variable& bias = *variables.find("dense/bias");
  EXPECT_TRUE(at::equal(attached.gradients().of(bias), at::full({3}, 2.0f)));
  EXPECT_EQ(network->dense->bias.grad().data_ptr<float>(),
            attached.gradients().flat.data_ptr<float>() + bias.offset);
}

TEST(AttachedModule, ForwardSeesChangesOfTheVariables) {
  const auto network = std::make_shared<Network>();
  const Variables variables = Variables::adopt(*network, with_sparse_table());
  const AttachedModule attached = variables.attach(network);
  variables.flat().fill_(0.25);
  EXPECT_TRUE(at::equal(network->dense->weight, at::full({3, 4}, 0.25f)));
  variables.find("table/weight")->value.fill_(3);
  EXPECT_TRUE(at::equal(network->table->weight, at::full({10, 4}, 3.0f)));
}

TEST(AttachedModule, NamesTheRowsOfATableThatABatchTouched) {
  const auto network = std::make_shared<Network>();
  network->eval();
  const Variables variables = Variables::adopt(*network, with_sparse_table());
  AttachedModule attached = variables.attach(network);
  attached.zero();
  network->forward(torch::tensor({7, 1, 7}, at::kLong)).backward();
  attached.collect();
  const RowGradient& rows = attached.gradients().rows[0];
  EXPECT_TRUE(at::equal(rows.rows, torch::tensor({1, 7}, at::kLong)));
  EXPECT_TRUE(at::allclose(rows.values[1], rows.values[0] * 2));
  attached.zero();
  attached.collect();
  EXPECT_TRUE(attached.gradients().rows[0].empty());
}

TEST(AttachedModule, SharesValuesButNotGradientsNorBuffersWithOtherReplicas) {
  const auto first = std::make_shared<Network>();
  const auto second = std::make_shared<Network>();
  const Variables variables = Variables::adopt(*first, with_sparse_table());
  AttachedModule one = variables.attach(first);
  AttachedModule two = variables.attach(second);
  EXPECT_EQ(first->dense->weight.data_ptr(), second->dense->weight.data_ptr());
  second->forward(torch::tensor({1, 2}, at::kLong)).backward();
  EXPECT_EQ(one.gradients().flat.abs().sum().item<float>(), 0.0f);
  EXPECT_NE(two.gradients().flat.abs().sum().item<float>(), 0.0f);
  EXPECT_EQ(variables.find("norm/num_batches_tracked")->value.item<std::int64_t>(), 0);
  EXPECT_EQ(second->norm->num_batches_tracked.item<std::int64_t>(), 1);
}

TEST(AttachedModule, BringsBackGradientsThatWereReplaced) {
  const auto network = std::make_shared<Network>();
  const Variables variables = Variables::adopt(*network, with_sparse_table());
  AttachedModule attached = variables.attach(network);
  network->dense->bias.mutable_grad() = at::full({3}, 5.0f);
  attached.collect();
  EXPECT_TRUE(
      at::equal(attached.gradients().of(*variables.find("dense/bias")), at::full({3}, 5.0f)));
}

TEST(AttachedModule, RefusesADenseGradientOfASparseVariable) {
  const auto layer = std::make_shared<torch::nn::EmbeddingImpl>(10, 4);
  const Variables variables =
      Variables::adopt(*layer, {.sparse = [](std::string_view) { return true; }});
  AttachedModule attached = variables.attach(layer);
  layer->forward(torch::tensor({1}, at::kLong)).sum().backward();
  EXPECT_THROW(attached.collect(), FailedPrecondition);
}

TEST(Variables, RefusesAModuleOfAnotherShape) {
  const auto layer = std::make_shared<torch::nn::LinearImpl>(2, 3);
  const Variables variables = Variables::adopt(*layer);
  EXPECT_THAT(message_of([&] { variables.attach(std::make_shared<torch::nn::LinearImpl>(4, 3)); }),
              HasSubstr("variable `weight` has shape [3, 2], the module's parameter [3, 4]"));
  EXPECT_THAT(message_of([&] {
                variables.attach(std::make_shared<torch::nn::LinearImpl>(
                    torch::nn::LinearOptions(2, 3).bias(false)));
              }),
              HasSubstr("no parameter for variable `bias`"));
}

TEST(Variables, RefusesTrainedParametersThatAreNotFloat) {
  torch::nn::Linear layer(2, 3);
  layer->to(at::kDouble);
  EXPECT_THAT(message_of([&] { Variables::adopt(*layer); }), HasSubstr("`weight` is Double"));
}

TEST(Variables, HasATensorThatTheModuleHoldsTwiceOnce) {
  struct Tied : torch::nn::Module {
    Tied() {
      const at::Tensor weight = register_parameter("weight", torch::ones({2}));
      register_parameter("again", weight);
    }
  };
  const auto tied = std::make_shared<Tied>();
  EXPECT_EQ(Variables::adopt(*tied).parameter_count(), 2);
}

TEST(Variables, CanBeMadeWithoutAModule) {
  const Variables variables({{.name = "kernel", .shape = {2, 3}},
                             {.name = "table", .shape = {5, 2}, .sparse = true},
                             {.name = "mean", .shape = {3}, .trainable = false}});
  EXPECT_EQ(variables.tensors().size(), 3u);
  EXPECT_EQ(variables.parameter_count(), 16);
  EXPECT_EQ(variables.make_gradients().rows.size(), 1u);
}

TEST(Variables, RefusesSpecsThatCannotBe) {
  EXPECT_THROW(Variables({{.name = "a", .shape = {1}}, {.name = "a", .shape = {1}}}),
               InvalidArgument);
  EXPECT_THROW(Variables({{.name = "a", .shape = {-1}}}), InvalidArgument);
  EXPECT_THROW(Variables({{.name = "a", .shape = {4}, .sparse = true}}), InvalidArgument);
  EXPECT_THROW(Variables({{.name = "a", .shape = {1LL << 40, 1LL << 40}}}), InvalidArgument);
}

}  // namespace
}  // namespace muster
