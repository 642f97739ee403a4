#include "muster/saved_model/graph/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

NodeDef node(std::string name, std::vector<std::string> inputs, std::string op = "AddN") {
  return {.name = std::move(name), .op = std::move(op), .inputs = std::move(inputs)};
}

template <typename E = InvalidArgument>
void expect_refused(const GraphDef& graph, const std::string& why) {
  EXPECT_THAT([&] { check_graph(graph); }, ThrowsMessage<E>(HasSubstr(why)));
}

FunctionDef function(std::string name, std::vector<NodeDef> nodes) {
  return {.signature = {.name = std::move(name),
                        .inputs = {{.name = "x", .type = DataType::kFloat}},
                        .outputs = {{.name = "y", .type = DataType::kFloat}}},
          .nodes = std::move(nodes),
          .ret = {{"y", "n:sum:0"}}};
}

TEST(TopologicalOrder, PutsInputsFirstAndOtherwiseKeepsTheOrder) {
  EXPECT_THAT(
      topological_order({node("c", {"b:0", "^a"}), node("b", {"a"}), node("a", {}), node("d", {})}),
      ElementsAre(2, 1, 0, 3));
  EXPECT_THAT(topological_order({node("n", {"x"})}, {"x"}), ElementsAre(0));
}

TEST(TopologicalOrder, TakesAChainOfAnyLength) {
  std::vector<NodeDef> chain{node("n0", {})};
  for (int i = 1; i < 20'000; ++i) {
    chain.push_back(node("n" + std::to_string(i), {"n" + std::to_string(i - 1)}));
  }
  EXPECT_EQ(topological_order(chain).back(), 19'999U);
}

TEST(CheckGraph, RefusesWhatIsNoGraph) {
  expect_refused({.nodes = {node("a", {}), node("a", {})}}, "two nodes have the name 'a'");
  expect_refused({.nodes = {node("a", {"b"})}},
                 "node 'a' (AddN): there is no node for its input 'b'");
  expect_refused({.nodes = {node("a", {}), node("b", {"^a", "a"})}},
                 "'a' comes after a control input");
  expect_refused({.nodes = {node("a b", {})}}, "node 'a b' (AddN): a name has letters");
  expect_refused({.nodes = {node("a", {}), node("b", {"a:z:0"})}}, "only nodes of functions may");
  expect_refused({.nodes = {node("a", {}, "")}}, "node 'a' has no operation");
}

TEST(CheckGraph, NamesTheNodesOfACycle) {
  expect_refused({.nodes = {node("z", {"b"}), node("a", {"b", "k"}), node("b", {"c"}),
                            node("c", {"^a"}), node("k", {})}},
                 "a cycle of 3 nodes: ");
  expect_refused({.nodes = {node("a", {"a"})}}, "a cycle of 1 nodes: a");
}

TEST(CheckGraph, RefusesLoopsByName) {
  expect_refused<Unimplemented>(
      {.nodes = {node("m", {"n"}, "Merge"), node("n", {"m"}, "NextIteration")}},
      "node 'n' (NextIteration): loops in TensorFlow 1's form");
}

TEST(CheckGraph, ChecksFunctions) {
  const NodeDef call{.name = "c", .op = "PartitionedCall", .attrs = {{"f", FunctionRef{"f", {}}}}};
  const NodeDef body = node("n", {"x", "^m"});
  const NodeDef other = node("m", {});
  EXPECT_NO_THROW(check_graph({.nodes = {call}, .functions = {function("f", {body, other})}}));
  expect_refused({.nodes = {call}}, "node 'c' (PartitionedCall): there is no function 'f'");
  expect_refused({.functions = {function("f", {body, other}), function("f", {body, other})}},
                 "two functions have the name 'f'");
  expect_refused({.functions = {function("f", {other})}}, "there is no node for its result 'y'");
  expect_refused({.functions = {function("f", {body})}},
                 "function 'f': node 'n' (AddN): there is no node");
  expect_refused({.functions = {function("f", {node("n", {"m"}), other})}}, "must be an argument");
  FunctionDef silent = function("f", {body, other});
  silent.ret.clear();
  expect_refused({.functions = {silent}}, "nothing becomes its result 'y'");
}

TEST(CheckGraph, RefusesFunctionsThatCallThemselves) {
  const NodeDef to_g{.name = "n", .op = "PartitionedCall", .attrs = {{"f", FunctionRef{"g", {}}}}};
  const NodeDef to_f = node("n", {}, "f");
  expect_refused({.functions = {function("f", {to_g}), function("g", {to_f})}}, "calls itself");
  EXPECT_NO_THROW(
      check_graph({.functions = {function("f", {to_g}), function("g", {node("n", {})})}}));
}

}  // namespace
}  // namespace muster::graph
