#include "muster/saved_model/graph/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::read_bytes;
using testing::TempDir;
using testing::write_bytes;

NodeDef strings_node(const std::string& name, const std::vector<std::string>& values) {
  return constant_node(name,
                       TensorValue::of_strings({static_cast<std::int64_t>(values.size())}, values));
}

// A variable, and how the output `index` of the restoring node becomes its value.
void add_variable(const std::string& name, DataType type, const Shape& shape, int index,
                  GraphDef& graph) {
  const std::string output = index == 0 ? "restore" : "restore:" + std::to_string(index);
  graph.nodes.push_back(
      {.name = name, .op = "VarHandleOp", .attrs = {{"dtype", type}, {"shape", shape}}});
  graph.nodes.push_back(
      {.name = name + "/value", .op = "Identity", .inputs = {output}, .attrs = {{"T", type}}});
  graph.nodes.push_back({.name = name + "/assign",
                         .op = "AssignVariableOp",
                         .inputs = {name, name + "/value"},
                         .attrs = {{"dtype", type}}});
}

// A graph that restores the float matrix "kernel" and the int64 scalar "step", and reads
// "words.txt".
MetaGraph small_graph() {
  MetaGraph meta{.tags = {"serve"}};
  auto& nodes = meta.graph.nodes;
  nodes.push_back(constant_node("file", TensorValue::string_scalar("model")));
  nodes.push_back(strings_node("names", {"kernel", "step"}));
  nodes.push_back(strings_node("slices", {"", ""}));
  nodes.push_back({.name = "restore",
                   .op = "RestoreV2",
                   .inputs = {"file", "names", "slices"},
                   .attrs = {{"dtypes", AttrValue::list(std::vector<DataType>{
                                            DataType::kFloat, DataType::kInt64})}}});
  add_variable("kernel", DataType::kFloat, {2, 1}, 0, meta.graph);
  add_variable("step", DataType::kInt64, Shape(), 1, meta.graph);
  nodes.push_back(
      {.name = "restore_all", .op = "NoOp", .inputs = {"^kernel/assign", "^step/assign"}});
  meta.saver = Saver{.filename_tensor = "file:0", .restore_op = "restore_all"};
  meta.assets.push_back({.tensor = {.name = "words:0"}, .filename = "words.txt"});
  return meta;
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Writes a checkpoint of training: the variables, and a slot that no export needs.
void write_checkpoint(const Path& prefix, bool with_step = true) {
  const std::vector<float> kernel{0.5F, -2.0F};
  const std::vector<std::int64_t> step{400};
  BundleWriter writer(prefix);
  writer.add({.name = "kernel", .shape = {2, 1}, .bytes = bytes_of(kernel)});
  writer.add({.name = "kernel/Adagrad", .shape = {2, 1}, .bytes = bytes_of(kernel)});
  if (with_step) writer.add({.name = "step", .type = DataType::kInt64, .bytes = bytes_of(step)});
  writer.finish();
}

class Join : public ::testing::Test {
 protected:
  Join() {
    write_checkpoint(folder_ / "model.ckpt-400");
    std::filesystem::create_directories(folder_ / "graph.assets");
    write_bytes(folder_ / "graph.assets/words.txt", "a\nb\n");
  }

  std::string join(const MetaGraph& meta, const char* checkpoint = "model.ckpt-400") {
    return message_of([&] {
      write_joined_model(meta, inference_assets_dir(folder_.path()),
                         BundleReader(folder_ / checkpoint), folder_ / "out");
    });
  }

  TempDir folder_;
};

TEST_F(Join, WritesTheGraphWithItsVariablesAndAssetsAndNothingElse) {
  EXPECT_EQ(join(small_graph()), "nothing was thrown");
  const SavedModel model = read_saved_model(folder_ / "out");
  ASSERT_EQ(model.meta_graphs.size(), 1U);
  EXPECT_EQ(model.meta_graphs[0], small_graph());
  const BundleReader variables(variables_prefix(folder_ / "out"));
  EXPECT_THAT(variables.names(), ElementsAre("kernel", "step"));
  const auto kernel = variables.read("kernel");
  EXPECT_EQ(kernel.spec, (TensorSpec{DataType::kFloat, {2, 1}}));
  EXPECT_TRUE(std::ranges::equal(kernel.bytes, bytes_of(std::vector<float>{0.5F, -2.0F})));
  EXPECT_EQ(read_bytes(folder_ / "out/assets/words.txt"), "a\nb\n");
}

TEST_F(Join, NamesVariablesThatTheCheckpointLacksOrHasDifferently) {
  write_checkpoint(folder_ / "old", /*with_step=*/false);
  EXPECT_THAT(join(small_graph(), "old"), HasSubstr("not one of this graph: step is missing"));
  MetaGraph wider = small_graph();
  for (auto& node : wider.graph.nodes) {
    if (node.name == "kernel") node.attrs["shape"] = Shape{3, 1};
  }
  EXPECT_THAT(join(wider), HasSubstr("kernel is float32 [2, 1] there and DT_FLOAT (3, 1) in the"));
  MetaGraph doubles = small_graph();
  doubles.graph.nodes[3].attrs["dtypes"] =
      AttrValue::list(std::vector<DataType>{DataType::kDouble, DataType::kInt64});
  EXPECT_THAT(join(doubles), HasSubstr("kernel is float32 [2, 1] there and DT_DOUBLE (2, 1)"));
  EXPECT_FALSE(file_exists(folder_ / "out"));
}

TEST_F(Join, RefusesASaverThatItCannotFollow) {
  MetaGraph gone = small_graph();
  gone.saver->restore_op = "nowhere";
  EXPECT_THAT(join(gone), HasSubstr("the graph's saver lacks the node 'nowhere'"));
  MetaGraph computed = small_graph();
  computed.graph.nodes[3].inputs[1] = "kernel";
  EXPECT_THAT(join(computed), HasSubstr("kernel of the graph's saver must be a constant"));
  MetaGraph few = small_graph();
  few.graph.nodes[3].inputs.resize(2);
  EXPECT_THAT(join(few), HasSubstr("restore of the graph's saver has only 2 inputs"));
  MetaGraph uneven = small_graph();
  uneven.graph.nodes[2] = strings_node("slices", {""});
  EXPECT_THAT(join(uneven), HasSubstr("restores 2 tensors of 2 types in 1 slices"));
  MetaGraph cycle = small_graph();
  for (auto& node : cycle.graph.nodes) {
    if (node.name == "kernel/value") node.inputs = {"kernel/value"};
  }
  EXPECT_EQ(join(cycle), "nothing was thrown") << "a cycle is followed to no end";
}

TEST_F(Join, RefusesAnAssetThatIsMissingOrLiesElsewhere) {
  MetaGraph away = small_graph();
  away.assets[0].filename = "../model.ckpt-400.index";
  EXPECT_THAT(join(away), HasSubstr("lies outside of the SavedModel's folder"));
  MetaGraph missing = small_graph();
  missing.assets[0].filename = "others.txt";
  EXPECT_THAT(join(missing), HasSubstr("others.txt"));
  EXPECT_FALSE(file_exists(folder_ / "out"));
}

TEST_F(Join, ReadsTheGraphOfAModelDir) {
  EXPECT_THAT(message_of([&] { read_inference_graph(folder_.path()); }),
              HasSubstr("graph.pb is not there. train_and_evaluate() writes it when training"));
  write_bytes(folder_ / "graph.pb", encode_saved_model({.meta_graphs = {small_graph()}}));
  EXPECT_EQ(read_inference_graph(folder_.path()), small_graph());
  write_bytes(folder_ / "graph.pb", encode_saved_model({}));
  EXPECT_THAT(message_of([&] { read_inference_graph(folder_.path()); }),
              HasSubstr("0 graphs where there must be one"));
  write_bytes(folder_ / "graph.pb", "\x0A\xFF");
  EXPECT_THAT(message_of([&] { read_inference_graph(folder_.path()); }), HasSubstr("reading "));
}

}  // namespace
}  // namespace muster::graph
