#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/executor/fusion_graph_test_internal.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ((x - 0.3) / 1.7 squared * z + x), negative.
FusionGraph every_operation() {
  FusionGraph graph;
  graph.constant("mean", at::full({}, 0.3F)).constant("deviation", at::full({}, 1.7F));
  graph.elementwise("a", "Sub", {"x", "mean"}).elementwise("b", "RealDiv", {"a", "deviation"});
  graph.elementwise("c", "Square", {"b"})
      .elementwise("d", "Mul", {"z", "c"})
      .elementwise("e", "AddV2", {"d", "x"});
  return graph.elementwise("y", "Neg", {"e"});
}

TEST(FuseChains, MakesOneStepOfElementwiseOnes) {
  EXPECT_THAT(every_operation().planned(), ElementsAre("FusedElementwise"));
}

TEST(FuseChains, GivesTheSameBits) {
  const FusionGraph graph = every_operation();
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
  const FusionGraph graph = every_operation();
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
  FusionGraph graph;
  graph.elementwise("a", "AddV2", {"x", "z"})
      .elementwise("b", "Mul", {"a", "a"})
      .elementwise("y", "Sub", {"b", "x"});
  EXPECT_THAT(graph.planned(), ElementsAre("FusedElementwise"));
  EXPECT_TRUE(graph.is_same(at::randn({40}), at::randn({40})));
  graph.fetch("b");
  EXPECT_THAT(graph.planned(), ElementsAre("FusedElementwise", "Sub"));
  EXPECT_TRUE(graph.is_same(at::randn({40}), at::randn({40})));
}

TEST(FuseChains, JoinsTwoBranchesIntoOneOfThem) {
  FusionGraph graph;
  graph.elementwise("a", "Neg", {"x"}).elementwise("b", "Square", {"a"});
  graph.elementwise("c", "Neg", {"z"}).elementwise("d", "Square", {"c"});
  graph.elementwise("y", "Sub", {"b", "d"});
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
