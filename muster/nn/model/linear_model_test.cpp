#include "muster/nn/model/linear_model.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/features/collate.h"
#include "muster/nn/model/input_layer.h"
#include "muster/nn/model/module_variables.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::shared_ptr<const ColumnSet> linear(FeatureColumnList columns) {
  return std::make_shared<const ColumnSet>(std::move(columns), ColumnUse::kLinear);
}

std::shared_ptr<const ColumnSet> input(FeatureColumnList columns) {
  return std::make_shared<const ColumnSet>(std::move(columns), ColumnUse::kInputLayer);
}

RaggedColumn ragged(std::vector<std::int64_t> values, std::vector<std::int64_t> splits) {
  return {.values = torch::tensor(values), .row_splits = torch::tensor(splits)};
}

// Four examples: one id a row, many ids with an empty row, and numbers.
Features small_batch() {
  RaggedColumn weights{.values = torch::tensor({1.0F, 0.5F, 2.0F, -1.0F, 3.0F}),
                       .row_splits = torch::tensor(std::vector<std::int64_t>{0, 2, 2, 4, 5})};
  return {{"one", torch::tensor(std::vector<std::int64_t>{3, 1, 3, 0})},
          {"many", ragged({2, 7, 2, 2, 5}, {0, 2, 2, 4, 5})},
          {"weights", weights},
          {"x", torch::tensor({0.5F, -1.0F, 2.0F, 0.25F})},
          {"y", torch::tensor({1.0F, 2.0F, 3.0F, 4.0F, -1.0F, -2.0F, 0.0F, 1.0F}).view({4, 2})}};
}

FeatureColumnList linear_columns() {
  const auto many = categorical_column_with_identity("many", 9);
  return {categorical_column_with_identity("one", 4), many,
          weighted_categorical_column(many, "weights"), numeric_column("x"),
          numeric_column("y", {.shape = {2}})};
}

FeatureColumnList input_columns() {
  const auto many = categorical_column_with_identity("many", 9);
  const auto one = categorical_column_with_identity("one", 9);
  FeatureColumnList columns = shared_embedding_columns({many, one}, 3);
  columns.push_back(embedding_column(weighted_categorical_column(many, "weights"), 2,
                                     {.combiner = Combiner::kSqrtN, .max_norm = 0.5}));
  columns.push_back(numeric_column("x"));
  columns.push_back(numeric_column("y", {.shape = {2}}));
  return columns;
}

// So that no sum is 0 and no order is like another.
void fill(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  double start = 0.1;
  for (auto& parameter : module.parameters()) {
    parameter.copy_((torch::arange(parameter.numel()) + start).cos().view_as(parameter));
    start += 1;
  }
}

// A loss that weighs every output differently.
torch::Tensor loss_of(const torch::Tensor& output) {
  return (output * (torch::arange(output.numel()) + 0.5).sin().view_as(output)).sum();
}

at::Tensor as_table(const RowGradient& gradient, const at::Tensor& table) {
  auto dense = torch::zeros_like(table);
  if (!gradient.empty()) dense.index_copy_(0, gradient.rows, gradient.values);
  return dense;
}

// The module's own loops and libtorch's operations, over the same batch.
template <typename Module>
void expect_same_by_rows(Module& module, const Features& features) {
  const auto output = module.forward(features);
  loss_of(output).backward();
  std::vector<at::Tensor> dense;
  for (const auto& parameter : module.parameters()) {
    const auto& gradient = parameter.grad();
    dense.push_back(!gradient.defined()    ? at::Tensor()
                    : gradient.is_sparse() ? gradient.to_dense()
                                           : gradient.clone());
  }
  module.zero_grad();
  for (auto& parameter : module.parameters()) parameter.mutable_grad().reset();

  module.keep_row_gradients();
  const auto by_loops = module.forward(features);
  EXPECT_TRUE(at::allclose(output, by_loops, 1e-6, 1e-6)) << output << by_loops;
  loss_of(by_loops).backward();
  const auto kept = module.take_row_gradients();
  const auto tables = module.tables();
  ASSERT_EQ(kept.size(), tables.size());
  const auto parameters = module.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    at::Tensor gradient = parameters[p].grad();
    for (std::size_t t = 0; t < tables.size(); ++t) {
      if (!tables[t].is_same(parameters[p])) continue;
      EXPECT_FALSE(gradient.defined());
      check_row_gradient(kept[t], tables[t].size(0), tables[t].size(1), "table");
      gradient = as_table(kept[t], tables[t]);
    }
    ASSERT_EQ(gradient.defined(), dense[p].defined());
    if (gradient.defined()) {
      EXPECT_TRUE(at::allclose(gradient, dense[p], 1e-5, 1e-6)) << gradient << dense[p];
    }
  }
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(module.forward(features), by_loops));
}

TEST(LinearModel, HasTensorFlowsVariables) {
  const auto model = std::make_shared<LinearModel>(
      LinearModelOptions{.columns = linear(linear_columns()), .units = 2});
  std::vector<std::string> variables;
  for (const auto& variable : variables_of(*model)) {
    variables.push_back(fmt::format("{} [{}] {}", variable.name,
                                    fmt::join(variable.tensor.sizes(), ", "), variable.sparse));
    EXPECT_EQ(variable.tensor.count_nonzero().item<std::int64_t>(), 0);
  }
  EXPECT_THAT(variables, UnorderedElementsAre("many/weights [9, 2] true", "one/weights [4, 2] true",
                                              "many_weighted_by_weights/weights [9, 2] true",
                                              "x/weights [1, 2] false", "y/weights [2, 2] false",
                                              "bias_weights [2] false"));
}

TEST(LinearModel, KeepsDotsOfAColumnsName) {
  const auto model = std::make_shared<LinearModel>(LinearModelOptions{
      .columns =
          linear({categorical_column_with_identity("user.id", 4), numeric_column("a.b.c")})});
  EXPECT_EQ(variables_of(*model)[0].name, "a.b.c/weights");
  EXPECT_EQ(variables_of(*model)[1].name, "user.id/weights");
}

TEST(LinearModel, AddsTheWeightsOfAllColumnsAndTheBias) {
  LinearModel model({.columns = linear({categorical_column_with_identity("many", 9),
                                        numeric_column("y", {.shape = {2}})})});
  {
    const torch::NoGradGuard no_grad;
    auto parameters = model.named_parameters();
    parameters["many/weights"].copy_(torch::arange(9).view({9, 1}));
    parameters["y/weights"].copy_(torch::tensor({10.0F, 100.0F}).view({2, 1}));
    parameters["bias_weights"].fill_(0.5F);
  }
  const auto wanted = torch::tensor({9 + 210.5F, 0 + 430.5F, 4 - 210.5F + 1.0F, 5 + 100.5F});
  EXPECT_TRUE(at::equal(model.forward(small_batch()), wanted.view({4, 1})));
}

TEST(LinearModel, GradientsByRowsAreThoseOfLibtorch) {
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    for (const std::int64_t units : {1, 3}) {
      LinearModel model(
          {.columns = linear(linear_columns()), .units = units, .sparse_combiner = combiner});
      fill(model);
      expect_same_by_rows(model, small_batch());
    }
  }
}

TEST(LinearModel, NamesTheRowsOfTheBatchAndNoOthers) {
  LinearModel model({.columns = linear({categorical_column_with_identity("many", 1'000'000)})});
  model.keep_row_gradients();
  model.forward(small_batch()).sum().backward();
  // Two backwards before one update add up.
  model.forward(small_batch().slice(0, 1)).sum().backward();
  const auto kept = model.take_row_gradients();
  EXPECT_TRUE(at::equal(kept[0].rows, torch::tensor(std::vector<std::int64_t>{2, 5, 7})));
  EXPECT_TRUE(at::equal(kept[0].values, torch::tensor({4.0F, 1.0F, 2.0F}).view({3, 1})));
  EXPECT_TRUE(model.take_row_gradients()[0].empty());
}

TEST(LinearModel, RefusesColumnsForAnotherUse) {
  EXPECT_THROW(LinearModel({.columns = input({numeric_column("x")})}), InvalidArgument);
  EXPECT_THROW(LinearModel({.columns = linear({numeric_column("x")}), .units = 0}),
               InvalidArgument);
}

TEST(InputLayer, HasOneTableForColumnsThatShareIt) {
  const auto layer = std::make_shared<InputLayer>(input(input_columns()));
  std::vector<std::string> variables;
  for (const auto& variable : variables_of(*layer)) {
    variables.push_back(
        fmt::format("{} [{}]", variable.name, fmt::join(variable.tensor.sizes(), ", ")));
    EXPECT_TRUE(variable.sparse);
  }
  EXPECT_THAT(variables,
              UnorderedElementsAre("many_one_shared_embedding/embedding_weights [9, 3]",
                                   "many_weighted_by_weights_embedding/embedding_weights [9, 2]"));
  EXPECT_EQ(layer->width(), 3 + 3 + 2 + 1 + 2);
}

TEST(InputLayer, PutsColumnsSideBySideInTheOrderOfTheirNames) {
  const auto one = categorical_column_with_identity("one", 4);
  InputLayer layer(input({numeric_column("x"), embedding_column(one, 2), indicator_column(one),
                          embedding_column(categorical_column_with_identity("many", 9), 2)}));
  fill(layer);
  const torch::NoGradGuard no_grad;
  const auto parameters = layer.named_parameters();
  const auto& many = parameters["many_embedding/embedding_weights"];
  const auto& table = parameters["one_embedding/embedding_weights"];
  const auto output = layer.forward(small_batch());
  EXPECT_TRUE(at::allclose(output[0].narrow(0, 0, 2), (many[2] + many[7]) / 2));
  EXPECT_TRUE(at::equal(output[1].narrow(0, 0, 2), torch::zeros({2})));
  EXPECT_TRUE(at::equal(output[3].narrow(0, 2, 2), table[0]));
  EXPECT_TRUE(at::equal(output[3].narrow(0, 4, 5), torch::tensor({1.0F, 0.0F, 0.0F, 0.0F, 0.25F})));
}

TEST(InputLayer, GradientsByRowsAreThoseOfLibtorch) {
  InputLayer layer(input(input_columns()));
  fill(layer);
  expect_same_by_rows(layer, small_batch());
}

// Results of a trace of both modules for another number of rows.
TEST(InputLayer, ATraceOfOneBatchHoldsForAnother) {
  const auto many = categorical_column_with_identity("many", 9);
  LinearModel model({.columns = linear({many}), .sparse_combiner = Combiner::kMean});
  InputLayer layer(input({embedding_column(many, 3, {.combiner = Combiner::kSqrtN})}));
  fill(model);
  fill(layer);
  // A trace holds what is neither input nor gradient as constants.
  for (auto& parameter : model.parameters()) parameter.set_requires_grad(false);
  for (auto& parameter : layer.parameters()) parameter.set_requires_grad(false);
  model.keep_row_gradients();
  layer.keep_row_gradients();
  const torch::NoGradGuard no_grad;
  const auto run = [&](const RaggedColumn& ids) {
    const std::vector<ColumnPiece> pieces{{.value = ids}};
    return torch::cat({model.forward(pieces), layer.forward(pieces)}, 1);
  };
  const RaggedColumn first = ragged({2, 7, 2, 2, 5}, {0, 2, 2, 4, 5});
  const auto traced = torch::jit::tracer::trace(
      {first.values, first.row_splits},
      [&](torch::jit::Stack inputs) -> torch::jit::Stack {
        return {run({.values = inputs[0].toTensor(), .row_splits = inputs[1].toTensor()})};
      },
      [](const torch::autograd::Variable&) { return std::string(); });
  torch::jit::GraphFunction function("forward", traced.first->graph, nullptr);
  const RaggedColumn other = ragged({8, 0, 1, 3, 3, 3, 4}, {0, 1, 3, 3, 3, 6, 7});
  const auto replayed = function({other.values, other.row_splits}).toTensor();
  EXPECT_TRUE(at::allclose(replayed, run(other), 1e-6, 1e-6)) << replayed;
}

TEST(InputLayer, ShortensRowsThatAreLongerThanMaxNorm) {
  const auto one = categorical_column_with_identity("one", 4);
  InputLayer layer(input({embedding_column(one, 2, {.max_norm = 0.5})}));
  {
    const torch::NoGradGuard no_grad;
    layer.parameters()[0].copy_(
        torch::tensor({0.1F, 0.2F, 3.0F, 4.0F, 0.0F, 0.0F, 0.0F, 0.5F}).view({4, 2}));
  }
  const auto wanted = torch::tensor({0.0F, 0.5F, 0.3F, 0.4F, 0.0F, 0.5F, 0.1F, 0.2F}).view({4, 2});
  EXPECT_TRUE(at::allclose(layer.forward(small_batch()), wanted));
}

TEST(InputLayer, ATableThatIsNotTrainedHasNoGradient) {
  const auto one = categorical_column_with_identity("one", 4);
  const auto layer =
      std::make_shared<InputLayer>(input({embedding_column(one, 2, {.trainable = false})}));
  EXPECT_TRUE(layer->tables().empty());
  EXPECT_FALSE(layer->forward(small_batch()).requires_grad());
  EXPECT_FALSE(variables_of(*layer)[0].trainable);
}

TEST(InputLayer, FillsTablesBySeedAndName) {
  const auto one = categorical_column_with_identity("one", 400);
  InputLayer first(input({embedding_column(one, 16)}));
  InputLayer second(input({numeric_column("x"), embedding_column(one, 16)}));
  first.seed_from(7, "dnn");
  second.seed_from(7, "dnn");
  const at::Tensor table = first.parameters()[0];
  EXPECT_TRUE(at::equal(table, second.parameters()[0]));
  EXPECT_LE(table.abs().max().item<float>(), 0.5F);
  EXPECT_NEAR(table.std().item<float>(), 0.25 * 0.88, 0.01);
  second.seed_from(8, "dnn");
  EXPECT_FALSE(at::equal(table, second.parameters()[0]));
}

TEST(InputLayer, AnIdOutsideTheTableNamesTheColumn) {
  InputLayer layer(input({embedding_column(categorical_column_with_identity("one", 9), 2)}));
  layer.keep_row_gradients();
  std::vector<ColumnPiece> pieces{{.value = ragged({1, 9}, {0, 1, 2})}};
  try {
    layer.forward(pieces);
    FAIL();
  } catch (const OutOfRange& error) {
    EXPECT_THAT(error.what(), HasSubstr("one_embedding"));
  }
}

}  // namespace
}  // namespace muster
