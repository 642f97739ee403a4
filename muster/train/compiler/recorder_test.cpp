#include "muster/train/compiler/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "muster/train/compiler/interpreter.h"
#include "muster/train/compiler/operations.h"

namespace muster::compiler {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;
using Tensors = std::vector<at::Tensor>;

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> all;
  for (const Node& node : graph.nodes) all.push_back(node.name());
  return all;
}

TEST(Recorder, SeesForwardAndBackwardBelowAutograd) {
  const auto w = torch::ones({3, 2}, torch::requires_grad());
  w.mutable_grad() = torch::zeros({3, 2});
  const auto recording = record(
      [&](const Tensors& in) {
        const auto loss = torch::relu(in[0].matmul(w)).sum();
        loss.backward();
        return Tensors{loss.detach()};
      },
      {torch::ones({4, 3})});
  EXPECT_EQ(recording.obstacle, "");
  const auto seen = names(recording.graph);
  EXPECT_THAT(seen, ::testing::IsSupersetOf({"aten::mm", "aten::relu", "aten::sum",
                                             "aten::threshold_backward", "aten::add_.Tensor"}));
  EXPECT_EQ(recording.outputs[0].item<float>(), 24.0F);
}

TEST(Recorder, ViewsOfOneMemoryAreValuesOfOneStorage) {
  const auto recording = record(
      [](const Tensors& in) {
        const auto x = in[0] + 1;
        return Tensors{x.t().t() * 2, x.narrow(0, 1, 1)};
      },
      {torch::ones({2, 3})});
  const Graph& graph = recording.graph;
  const ValueId sum = *graph.nodes[0].results[0].value;
  const ValueId read = *graph.nodes.back().results[0].value;
  EXPECT_EQ(graph.storage_of(*graph.outputs[1]), graph.storage_of(sum));
  EXPECT_NE(graph.storage_of(read), graph.storage_of(*graph.outputs[0]) + 1);
  EXPECT_EQ(graph.geometry(*graph.outputs[1]).offset, 3);
}

TEST(Recorder, NamesWhatAnOperationChanges) {
  const auto weight = torch::zeros({3});
  const auto recording = record(
      [&](const Tensors& in) {
        weight.add_(in[0]);
        return Tensors{weight};
      },
      {torch::ones({3})});
  const Graph& graph = recording.graph;
  ASSERT_EQ(graph.nodes.size(), 1U);
  ASSERT_EQ(graph.nodes[0].writes.size(), 1U);
  EXPECT_EQ(graph.storage(graph.storage_of(graph.nodes[0].writes[0])).kind,
            Storage::Kind::kExternal);
  ASSERT_EQ(recording.changed.size(), 1U);
  recording.changed[0].restore();
  EXPECT_TRUE(at::equal(weight, torch::zeros({3})));
}

TEST(Recorder, RunningStatisticsOfBatchNormAreChanged) {
  torch::nn::BatchNorm1d norm(3);
  const auto recording = record([&](const Tensors& in) { return Tensors{norm(in[0])}; },
                                {torch::randn({4, 3})}, {.check_schemas = true});
  std::size_t changed = 0;
  for (const Node& node : recording.graph.nodes) changed += node.writes.size();
  EXPECT_EQ(changed, 3U);  // mean, variance and the count of batches
}

TEST(Recorder, MarksWhatDrawsRandomNumbers) {
  const auto recording =
      record([](const Tensors& in) { return Tensors{torch::dropout(in[0], 0.5, true) * 2}; },
             {torch::ones({8})});
  std::vector<std::string> random;
  for (const Node& node : recording.graph.nodes) {
    if (node.random) random.push_back(node.name());
  }
  EXPECT_EQ(random.size(), 1U);
}

TEST(Recorder, AValueThatTheHostReadsIsAnObstacle) {
  const auto recording =
      record([](const Tensors& in) { return Tensors{in[0] * in[0].sum().item<float>()}; },
             {torch::ones({3})});
  EXPECT_THAT(recording.obstacle, HasSubstr("aten::_local_scalar_dense gives a value to the host"));
}

TEST(Recorder, MemoryThatTheHostWritesIsAnObstacle) {
  const auto recording = record(
      [](const Tensors& in) {
        auto made = torch::empty({3});
        for (int i = 0; i < 3; ++i) made.data_ptr<float>()[i] = 2.0F;
        return Tensors{in[0] * made};
      },
      {torch::ones({3})});
  EXPECT_THAT(recording.obstacle, HasSubstr("reads memory that no operation has written"));
}

TEST(Recorder, AResizedTensorIsAnObstacle) {
  const auto other = torch::zeros({2});
  const auto recording = record(
      [&](const Tensors& in) {
        at::Tensor out = other.clone();
        out.resize_({3});
        return Tensors{out.copy_(in[0])};
      },
      {torch::ones({3})});
  EXPECT_THAT(recording.obstacle, HasSubstr("aten::resize_ gives a tensor other memory"));
}

TEST(Recorder, ATensorThatIsTransposedInPlaceIsAView) {
  const auto recording = record(
      [](const Tensors& in) {
        at::Tensor x = in[0] + 1;
        x.transpose_(0, 1);
        return Tensors{x.neg()};
      },
      {torch::ones({2, 3})});
  EXPECT_EQ(recording.obstacle, "");
  EXPECT_EQ(recording.graph.geometry(*recording.graph.outputs[0]).sizes,
            (std::vector<std::int64_t>{3, 2}));
}

TEST(Recorder, ASparseTensorIsAnObstacle) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  const auto recording = record(
      [&](const Tensors& in) {
        const auto loss = table(in[0]).sum();
        loss.backward();
        return Tensors{loss.detach()};
      },
      {torch::zeros({3}, torch::kLong)});
  EXPECT_THAT(recording.obstacle, HasSubstr("not plain strided memory"));
}

TEST(Recorder, TwoRecordingsOfOneStepAreTheSame) {
  const auto w = torch::ones({3});
  int calls = 0;
  const auto step = [&](const Tensors& in) {
    const double factor = ++calls < 3 ? 2.0 : 3.0;
    return Tensors{torch::pow(in[0] * w, factor)};
  };
  const auto first = record(step, {torch::ones({3})});
  const auto second = record(step, {torch::zeros({3})});
  const auto third = record(step, {torch::zeros({3})});
  EXPECT_EQ(first_difference(first.graph, second.graph), std::nullopt);
  EXPECT_THAT(first_difference(first.graph, third.graph), Optional(HasSubstr("aten::pow")));
}

TEST(Graph, IsReadAsALinePerOperation) {
  const auto w = torch::zeros({3});
  const auto recording = record(
      [&](const Tensors& in) {
        w.add_(in[0].sum(0));
        return Tensors{w.neg()};
      },
      {torch::ones({4, 3})});
  EXPECT_EQ(
      to_text(recording.graph),
      "%1: f32[3] in s1 = aten::sum.dim_IntList(%0, [0], False, None)\n"
      "%2: f32[3] in external 2 = aten::add_.Tensor(%2, %1, 1) changes %2: f32[3] in external 2\n"
      "%3: f32[3] in s3 = aten::neg(%2)\n"
      "return %3\n");
}

TEST(Recorder, AnEmptyTensorThatIsSetToMemoryIsAView) {
  const auto step = [](const Tensors& in) {
    const auto buffer = torch::zeros({6});
    const auto part = torch::empty({0}).set_(buffer.storage(), 2, {3}, {1});
    part.copy_(in[0]);
    return Tensors{buffer * 2};
  };
  const Recording recording = record(step, {torch::ones({3})});
  EXPECT_EQ(recording.obstacle, "");
  const auto in = torch::randn({3});
  const auto made = Interpreter(recording.graph).run({in})[0];
  EXPECT_TRUE(at::equal(made, step({in})[0]));
}

TEST(Recorder, AVariableThatIsSetToOtherMemoryIsNot) {
  const auto w = torch::zeros({3});
  const auto step = [&](const Tensors& in) {
    w.set_(in[0].clone().storage(), 0, {3}, {1});
    return Tensors{w * 2};
  };
  EXPECT_THAT(record(step, {torch::ones({3})}).obstacle, ::testing::HasSubstr("other memory"));
}

}  // namespace
}  // namespace muster::compiler
