#include "muster/saved_model/graph/default_attrs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "muster/saved_model/graph/op_registry.h"
#include "muster/testing/data_dir.h"

namespace muster::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

GraphDef product(Attrs attrs) {
  return {.nodes = {{.name = "product", .op = "MatMul", .inputs = {"a", "b"}, .attrs = attrs}}};
}

TEST(DefaultAttrs, AreTakenOutAndSpeltOutAgain) {
  const Attrs whole{{"T", DataType::kFloat}, {"transpose_a", false}, {"transpose_b", true}};
  GraphDef graph = product(whole);
  graph.functions.push_back({.nodes = graph.nodes});
  strip_default_attrs(graph);
  for (const auto* nodes : {&graph.nodes, &graph.functions.at(0).nodes}) {
    EXPECT_THAT(nodes->at(0).attrs, ElementsAre(Pair("T", AttrValue(DataType::kFloat)),
                                                Pair("transpose_b", AttrValue(true))));
  }
  add_default_attrs(graph);
  EXPECT_EQ(graph.nodes.at(0).attrs, whole);
  EXPECT_EQ(graph.functions.at(0).nodes.at(0).attrs, whole);
}

TEST(DefaultAttrs, OfOtherOperationsAreNotKnown) {
  GraphDef graph{.nodes = {{.name = "x", .op = "OfSomebody", .attrs = {{"transpose_a", false}}}}};
  const GraphDef before = graph;
  strip_default_attrs(graph);
  EXPECT_EQ(graph, before);
  add_default_attrs(graph);
  EXPECT_EQ(graph, before);
}

// Adds them to a bare node of every operation that there is, and looks them up.
TEST(DefaultAttrs, AreTensorFlows) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  for (const char* name : {"ops.pbtxt.xz", "ops_v1.pbtxt.xz"}) {
    const auto registry = OpRegistry::read(data / "tensorflow" / name);
    GraphDef graph;
    for (const std::string& op : registry.names()) graph.nodes.push_back({.name = op, .op = op});
    add_default_attrs(graph);
    std::size_t known = 0;
    for (const NodeDef& node : graph.nodes) {
      known += node.attrs.empty() ? 0 : 1;
      const OpDef& op = *registry.find(node.op);
      for (const auto& [attr, value] : node.attrs) {
        const auto found =
            std::find_if(op.attrs.begin(), op.attrs.end(),
                         [&name = attr](const AttrDef& one) { return one.name == name; });
        ASSERT_NE(found, op.attrs.end()) << node.op << " " << attr;
        EXPECT_EQ(found->default_value, value) << node.op << " " << attr;
      }
    }
    EXPECT_EQ(known, 58U) << name << " lacks an operation of the table";
    EXPECT_FALSE(registry.spelt_out_defaults(graph).empty());
    strip_default_attrs(graph);
    EXPECT_THAT(registry.spelt_out_defaults(graph), IsEmpty());
  }
}

}  // namespace
}  // namespace muster::graph
