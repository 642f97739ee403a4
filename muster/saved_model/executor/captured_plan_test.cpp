#include "muster/saved_model/executor/captured_plan_internal.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/executor/captured_graph_test_internal.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using graph::DataType;
using graph::Shape;
using muster::testing::message_of;
using ::testing::HasSubstr;

/// A plan of a graph on the CPU, where captured steps are run again.
class OnTheHost {
 public:
  explicit OnTheHost(graph::MetaGraph meta, std::size_t max_graphs = 16)
      : meta_(std::move(meta)), budget_(RunLimits{}) {
    plain_ = plan();
    captured_ = std::make_unique<CapturedPlan>(
        plan(), CapturedPlan::Options{.name = "f", .max_graphs = max_graphs});
  }

  CapturedPlan& captured() { return *captured_; }

  /// Runs both, and returns whether all results have the same bits.
  bool is_same(const Values& inputs) {
    Budget budget(RunLimits{});
    const Slots wanted = plain_.run(arguments(inputs), budget);
    return same(wanted, captured_->run(arguments(inputs), budget));
  }
  bool is_same_for(std::int64_t rows, int times) {
    for (int i = 0; i < times; ++i) {
      if (!is_same(captured_graph_inputs(rows, i))) return false;
    }
    return true;
  }

  Slots arguments(const Values& inputs) const {
    Slots slots;
    for (const auto& [name, info] : meta_.signatures.at("f").inputs) {
      slots.push_back(to_slot(inputs.at(name)));
    }
    return slots;
  }
  static bool same(const Slots& left, const Slots& right) {
    if (left.size() != right.size()) return false;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i].index() != right[i].index()) return false;
      if (const auto* tensor = std::get_if<at::Tensor>(&left[i])) {
        if (!at::equal(*tensor, std::get<at::Tensor>(right[i]))) return false;
      } else if (!(std::get<StringTensor>(left[i]) == std::get<StringTensor>(right[i]))) {
        return false;
      }
    }
    return true;
  }

 private:
  Plan plan() {
    Planner planner({.graph = meta_.graph,
                     .ops = OpTable::standard(),
                     .device = at::kCPU,
                     .resources = resources_,
                     .budget = budget_,
                     .captures = true});
    std::vector<std::string> feeds;
    std::vector<std::string> fetches;
    for (const auto& [name, info] : meta_.signatures.at("f").inputs) feeds.push_back(info.name);
    for (const auto& [name, info] : meta_.signatures.at("f").outputs) fetches.push_back(info.name);
    Plan made = planner.plan(feeds, fetches, {});
    made.fold(/*variables_stay=*/true, budget_);
    made.merge();
    return made;
  }

  graph::MetaGraph meta_;
  Resources resources_;
  Budget budget_;
  Plan plain_;
  std::unique_ptr<CapturedPlan> captured_;
};

TEST(CapturedPlan, LeavesWordsAndClassesOutOfWhatIsCaptured) {
  OnTheHost made(captured_graph());
  const CapturedPlan& captured = made.captured();
  EXPECT_EQ(captured.obstacle(), "");
  const auto operations = captured.plan().operations();
  EXPECT_EQ(operations.front(), "StringToHashBucketFast");
  EXPECT_EQ(operations.back(), "AsString");
  // The host divides whole numbers, and looks at divisors.
  EXPECT_EQ(operations[1], "FloorMod");
  EXPECT_EQ(captured.captured_steps(), operations.size() - 3);
}

TEST(CapturedPlan, GivesThePlansBitsForEveryBatchSize) {
  OnTheHost made(captured_graph());
  for (const std::int64_t rows : {1, 5, 2}) EXPECT_TRUE(made.is_same_for(rows, 6)) << rows;
  EXPECT_EQ(made.captured().graphs(), 3U);
  EXPECT_TRUE(made.is_same_for(5, 2));
  EXPECT_EQ(made.captured().graphs(), 3U);
}

TEST(CapturedPlan, KeepsNoMoreGraphsThanItMay) {
  OnTheHost made(captured_graph(), /*max_graphs=*/2);
  for (const std::int64_t rows : {1, 2, 3, 4, 1}) EXPECT_TRUE(made.is_same_for(rows, 5)) << rows;
  EXPECT_EQ(made.captured().graphs(), 2U);
}

TEST(CapturedPlan, ResultsAreNotWrittenByLaterRuns) {
  OnTheHost made(captured_graph());
  ASSERT_TRUE(made.is_same_for(2, 4));
  Budget budget(RunLimits{});
  const auto first = made.captured().run(made.arguments(captured_graph_inputs(2, 1)), budget);
  const Slots kept{first[0], std::get<at::Tensor>(first[1]).clone()};
  made.captured().run(made.arguments(captured_graph_inputs(2, 2)), budget);
  EXPECT_TRUE(OnTheHost::same(first, kept));
}

TEST(CapturedPlan, AnswersThreadsAtTheSameTime) {
  OnTheHost made(captured_graph());
  std::vector<int> wrong(4, 0);
  // Made here: they are drawn from one generator, which threads would seed for each other.
  std::vector<Slots> inputs;
  std::vector<Slots> wanted;
  for (int i = 0; i < 4; ++i) {
    Budget budget(RunLimits{});
    inputs.push_back(made.arguments(captured_graph_inputs(1 + i % 2, i)));
    wanted.push_back(made.captured().run(inputs.back(), budget));
  }
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, which = static_cast<std::size_t>(i)] {
        for (int times = 0; times < 20; ++times) {
          Budget budget(RunLimits{});
          const auto found = made.captured().run(inputs[which], budget);
          wrong[which] += OnTheHost::same(found, wanted[which]) ? 0 : 1;
        }
      });
    }
  }
  EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST(CapturedPlan, ReplaysCountAsOperations) {
  OnTheHost made(captured_graph());
  ASSERT_TRUE(made.is_same_for(1, 4));
  Budget few({.operations = 5});
  EXPECT_THAT(
      message_of([&] { made.captured().run(made.arguments(captured_graph_inputs(1, 1)), few); }),
      HasSubstr("--max-operations"));
}

TEST(CapturedPlan, AGraphBelongsToTheShapeThatARequestAsksFor) {
  graph::MetaGraph meta;
  auto& nodes = meta.graph.nodes;
  nodes.push_back(graph::placeholder_node("x", DataType::kFloat, Shape::any()));
  nodes.push_back(graph::placeholder_node("sizes", DataType::kInt32, Shape::any()));
  nodes.push_back(
      {.name = "square", .op = "MatMul", .inputs = {"x", "x"}, .attrs = {{"T", DataType::kFloat}}});
  nodes.push_back({.name = "y",
                   .op = "Reshape",
                   .inputs = {"square", "sizes"},
                   .attrs = {{"T", DataType::kFloat}}});
  auto& signature = meta.signatures["f"];
  signature.inputs["x"] = {.name = "x:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  signature.inputs["sizes"] = {.name = "sizes:0", .dtype = DataType::kInt32, .shape = Shape::any()};
  signature.outputs["y"] = {.name = "y:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  OnTheHost made(meta);
  for (int i = 0; i < 5; ++i) {
    for (const int rows : {1, 2, 4}) {
      const Values inputs{{"x", at::randn({4, 4})},
                          {"sizes", at::tensor({rows, 16 / rows}, at::kInt)}};
      EXPECT_TRUE(made.is_same(inputs)) << rows;
    }
  }
  EXPECT_EQ(made.captured().graphs(), 3U);
}

TEST(CapturedPlan, SaysWhyAGraphIsNotCaptured) {
  graph::MetaGraph meta;
  meta.graph.nodes.push_back(graph::placeholder_node("x", DataType::kFloat, Shape::any()));
  meta.graph.nodes.push_back(
      {.name = "y", .op = "Relu", .inputs = {"x"}, .attrs = {{"T", DataType::kFloat}}});
  auto& signature = meta.signatures["f"];
  signature.inputs["x"] = {.name = "x:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  signature.outputs["y"] = {.name = "y:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  OnTheHost made(meta);
  EXPECT_THAT(made.captured().obstacle(), HasSubstr("no product or convolution"));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(made.is_same({{"x", at::randn({3})}}));
  EXPECT_EQ(made.captured().graphs(), 0U);
}

TEST(CapturedPlan, AnErrorOfACapturedStepNamesIt) {
  OnTheHost made(captured_graph());
  auto inputs = captured_graph_inputs(2, 1);
  inputs.insert_or_assign("x", at::randn({2, 4, 4, 3}));
  Budget budget(RunLimits{});
  EXPECT_THAT(message_of([&] { made.captured().run(made.arguments(inputs), budget); }),
              HasSubstr("conv"));
}

}  // namespace
}  // namespace muster::executor
