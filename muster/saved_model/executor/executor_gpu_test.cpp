// The executor on a GPU: what is captured has the bits of what is not.
#include <gmock/gmock.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/export/export_saved_model.h"
#include "muster/nn/device/devices.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/resnet.h"
#include "muster/saved_model/executor/captured_graph_test_internal.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/testing/temp_dir.h"

namespace muster::executor {
namespace {

using graph::DataType;
using graph::Shape;

bool same(const Values& left, const Values& right) {
  if (left.size() != right.size()) return false;
  for (const auto& [name, value] : left) {
    const Value& other = right.at(name);
    if (value.index() != other.index()) return false;
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      if (!at::equal(*tensor, std::get<at::Tensor>(other))) return false;
    } else if (!(std::get<StringTensor>(value) == std::get<StringTensor>(other))) {
      return false;
    }
  }
  return true;
}

struct ExecutorGpu : ::testing::Test {
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
    choose_gpu_kernels(/*deterministic=*/true);
  }

  static LoadOptions options(bool capture) {
    return {.device = at::Device(at::kCUDA, 0), .capture = capture};
  }
  static ExecutableModel graph(bool capture) {
    return ExecutableModel::from(captured_graph(), {}, options(capture));
  }
};

TEST_F(ExecutorGpu, CapturedRunsGiveTheBitsOfOthersForEveryBatchSize) {
  const auto captured = graph(true);
  const auto one_by_one = graph(false);
  for (int number = 0; number < 6; ++number) {
    for (const std::int64_t rows : {1, 3, 32}) {
      const Values inputs = captured_graph_inputs(rows, number);
      EXPECT_TRUE(same(captured.run("f", inputs), one_by_one.run("f", inputs)))
          << rows << " rows, run " << number;
    }
  }
  EXPECT_EQ(captured.captured_graphs("f"), 3U);
  EXPECT_EQ(one_by_one.captured_graphs("f"), 0U);
}

TEST_F(ExecutorGpu, AnswersAreThoseOfTheCpuButForRounding) {
  const auto captured = graph(true);
  const auto on_cpu = ExecutableModel::from(captured_graph(), {}, {.fuse_layers = false});
  for (int number = 0; number < 5; ++number) {
    const Values inputs = captured_graph_inputs(4, number);
    const auto found = std::get<at::Tensor>(captured.run("f", inputs).at("probabilities"));
    const auto wanted = std::get<at::Tensor>(on_cpu.run("f", inputs).at("probabilities"));
    EXPECT_TRUE(found.is_cpu());
    EXPECT_TRUE(at::allclose(found, wanted, 1e-4, 1e-5));
  }
}

TEST_F(ExecutorGpu, AnExportedResNetIsCapturedWithItsHead) {
  torch::manual_seed(1);
  const testing::TempDir folder;
  auto model = std::make_shared<ResNet>(ResNetOptions{.num_layers = 8, .num_classes = 11});
  const auto head = multi_class_head(11);
  exporting::write_model(*model, head.get(),
                         raw_serving_input({{"image", torch::rand({2, 32, 32, 3})}}),
                         folder / "export");
  const auto captured = ExecutableModel::load(folder / "export", options(true));
  const auto one_by_one = ExecutableModel::load(folder / "export", options(false));
  for (int number = 0; number < 6; ++number) {
    for (const std::int64_t rows : {1, 5}) {
      const Values inputs{{"image", torch::rand({rows, 32, 32, 3}) * 255}};
      EXPECT_TRUE(
          same(captured.run("serving_default", inputs), one_by_one.run("serving_default", inputs)))
          << rows << " rows, run " << number;
    }
  }
  EXPECT_EQ(captured.captured_graphs("serving_default"), 2U);
}

TEST_F(ExecutorGpu, ThreadsGetTheirOwnAnswers) {
  const auto captured = graph(true);
  const auto one_by_one = graph(false);
  std::vector<Values> inputs;
  std::vector<Values> wanted;
  for (int i = 0; i < 4; ++i) {
    inputs.push_back(captured_graph_inputs(1 + i % 2, i));
    wanted.push_back(one_by_one.run("f", inputs.back()));
  }
  std::vector<int> wrong(4, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int times = 0; times < 100; ++times) {
          wrong[i] += same(captured.run("f", inputs[i]), wanted[i]) ? 0 : 1;
        }
      });
    }
  }
  EXPECT_THAT(wrong, ::testing::Each(0));
  EXPECT_EQ(captured.captured_graphs("f"), 2U);
}

TEST_F(ExecutorGpu, AResultOutlivesTheModelAndLaterRuns) {
  Values first;
  Values wanted;
  {
    const auto captured = graph(true);
    for (int i = 0; i < 4; ++i) first = captured.run("f", captured_graph_inputs(2, 1));
    captured.run("f", captured_graph_inputs(2, 2));
    wanted = graph(false).run("f", captured_graph_inputs(2, 1));
  }
  EXPECT_TRUE(same(first, wanted));
}

// A number that is made of a shape of the device's tensors is brought to the device in every run,
// which cannot be captured.
TEST_F(ExecutorGpu, AGraphThatCannotBeCapturedRunsOperationByOperation) {
  graph::MetaGraph meta;
  auto& nodes = meta.graph.nodes;
  const graph::Attrs floats{{"T", DataType::kFloat}};
  nodes.push_back(graph::placeholder_node("x", DataType::kFloat, Shape::any()));
  nodes.push_back({.name = "square", .op = "MatMul", .inputs = {"x", "x"}, .attrs = floats});
  nodes.push_back({.name = "rank", .op = "Rank", .inputs = {"square"}, .attrs = floats});
  nodes.push_back({.name = "two",
                   .op = "Cast",
                   .inputs = {"rank"},
                   .attrs = {{"SrcT", DataType::kInt32}, {"DstT", DataType::kFloat}}});
  nodes.push_back({.name = "y", .op = "Mul", .inputs = {"square", "two"}, .attrs = floats});
  auto& signature = meta.signatures["f"];
  signature.inputs["x"] = {.name = "x:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  signature.outputs["y"] = {.name = "y:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  const auto model = ExecutableModel::from(meta, {}, options(true));
  for (int i = 0; i < 6; ++i) {
    const auto x = torch::eye(3) * (i + 1);
    const auto y = std::get<at::Tensor>(model.run("f", {{"x", x}}).at("y"));
    EXPECT_TRUE(at::equal(y, torch::eye(3) * (2 * (i + 1) * (i + 1)))) << i;
  }
  EXPECT_EQ(model.captured_graphs("f"), 0U);
}

}  // namespace
}  // namespace muster::executor
