#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/executor/executable_model.h"
#include "muster/executor/value.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using graph::DataType;
using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A graph of element-wise nodes with the signature "f" from "x" and "z" (floats) to "y" and what
/// else is fetched.
class ChainGraph {
 public:
  ChainGraph() {
    for (const char* name : {"x", "z"}) {
      meta_.graph.nodes.push_back(
          graph::placeholder_node(name, DataType::kFloat, graph::Shape::any()));
      signature_.inputs[name] = {.name = std::string(name) + ":0",
                                 .dtype = DataType::kFloat,
                                 .shape = graph::Shape::any()};
    }
    fetch("y");
  }

  ChainGraph& node(const std::string& name, const std::string& op,
                   const std::vector<std::string>& inputs) {
    meta_.graph.nodes.push_back(
        {.name = name, .op = op, .inputs = inputs, .attrs = {{"T", DataType::kFloat}}});
    return *this;
  }
  ChainGraph& constant(const std::string& name, float value) {
    meta_.graph.nodes.push_back({.name = name,
                                 .op = "Const",
                                 .inputs = {},
                                 .attrs = {{"value", to_tensor_value(at::full({}, value))}}});
    return *this;
  }
  ChainGraph& fetch(const std::string& name) {
    signature_.outputs[name] = {
        .name = name + ":0", .dtype = DataType::kFloat, .shape = graph::Shape::any()};
    return *this;
  }

  ExecutableModel load(bool fused, const RunLimits& limits = {}) const {
    graph::MetaGraph meta = meta_;
    meta.signatures["f"] = signature_;
    return ExecutableModel::from(meta, {}, {.fuse_layers = fused, .limits = limits});
  }
  std::vector<std::string> planned() const { return load(true).planned_operations("f"); }

  /// Whether all outputs have the same bits, fused or not.
  bool is_same(const at::Tensor& x, const at::Tensor& z) const {
    const Values plain = load(false).run("f", {{"x", x}, {"z", z}});
    const Values fused = load(true).run("f", {{"x", x}, {"z", z}});
    for (const auto& [name, value] : plain) {
      if (!at::equal(std::get<at::Tensor>(value), std::get<at::Tensor>(fused.at(name)))) {
        return false;
      }
    }
    return plain.size() == fused.size();
  }

 private:
  graph::MetaGraph meta_;
  graph::SignatureDef signature_;
};

// ((x - 0.3) / 1.7 squared * z + x), negative.
ChainGraph every_operation() {
  ChainGraph graph;
  graph.constant("mean", 0.3F).constant("deviation", 1.7F);
  graph.node("a", "Sub", {"x", "mean"}).node("b", "RealDiv", {"a", "deviation"});
  graph.node("c", "Square", {"b"}).node("d", "Mul", {"z", "c"}).node("e", "AddV2", {"d", "x"});
  return graph.node("y", "Neg", {"e"});
}

TEST(FuseChains, MakesOneStepOfElementwiseOnes) {
  EXPECT_THAT(every_operation().planned(), ElementsAre("FusedElementwise"));
}

TEST(FuseChains, GivesTheSameBits) {
  const ChainGraph graph = every_operation();
  at::manual_seed(1);
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{{1}, {3, 5}, {1023}, {1024}, {7, 1025}, {0, 3}, {}}) {
    const at::Tensor x = at::randn(sizes);
    EXPECT_TRUE(graph.is_same(x, at::randn(sizes))) << x.sizes();
    EXPECT_TRUE(graph.is_same(x, at::randn({}))) << x.sizes();
    EXPECT_TRUE(graph.is_same(at::randn({}), x)) << x.sizes();
  }
}

TEST(FuseChains, TakesShapesThatAreRepeatedStepByStep) {
  const ChainGraph graph = every_operation();
  EXPECT_TRUE(graph.is_same(at::randn({3, 5}), at::randn({5})));
  EXPECT_TRUE(graph.is_same(at::randn({3, 1}), at::randn({1, 5})));
  EXPECT_TRUE(graph.is_same(at::randn({5}), at::randn({1, 1})));
  EXPECT_TRUE(graph.is_same(at::randn({3, 5}).t(), at::randn({5, 3})));
  EXPECT_THAT(message_of([&] {
                graph.load(true).run("f", {{"x", at::ones({2})}, {"z", at::ones({3})}});
              }),
              HasSubstr("node d (Mul)"));
}

TEST(FuseChains, LeavesWhatOthersRead) {
  ChainGraph graph;
  graph.node("a", "AddV2", {"x", "z"}).node("b", "Mul", {"a", "a"}).node("y", "Sub", {"b", "x"});
  EXPECT_THAT(graph.planned(), ElementsAre("FusedElementwise"));
  EXPECT_TRUE(graph.is_same(at::randn({40}), at::randn({40})));
  graph.fetch("b");
  EXPECT_THAT(graph.planned(), ElementsAre("FusedElementwise", "Sub"));
  EXPECT_TRUE(graph.is_same(at::randn({40}), at::randn({40})));
}

TEST(FuseChains, JoinsTwoBranchesIntoOneOfThem) {
  ChainGraph graph;
  graph.node("a", "Neg", {"x"}).node("b", "Square", {"a"});
  graph.node("c", "Neg", {"z"}).node("d", "Square", {"c"});
  graph.node("y", "Sub", {"b", "d"});
  EXPECT_THAT(graph.planned(), ElementsAre("FusedElementwise", "FusedElementwise"));
  EXPECT_TRUE(graph.is_same(at::randn({40}), at::randn({40})));
}

TEST(FuseChains, CountsEveryOperationAndItsMemory) {
  const auto run = [](const RunLimits& limits) {
    every_operation().load(true, limits).run("f", {{"x", at::ones({100})}, {"z", at::ones({100})}});
  };
  EXPECT_NO_THROW(run({.operations = 6}));
  EXPECT_THROW(run({.operations = 5}), ResourceExhausted);
  EXPECT_THROW(run({.live_bytes = 399}), ResourceExhausted);
}

}  // namespace
}  // namespace muster::executor
