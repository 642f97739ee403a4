#include "muster/saved_model/executor/executable_model.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <span>
#include <thread>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/data/records/example_builder.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::executor {
namespace {

using graph::AttrValue;
using graph::DataType;
using graph::NodeDef;
using graph::TensorValue;
using muster::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

at::Tensor floats(std::vector<float> values) { return at::tensor(values, at::kFloat); }

std::vector<float> numbers(const Value& value) {
  const at::Tensor tensor = std::get<at::Tensor>(value).contiguous().to(at::kFloat);
  return {tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel()};
}

void expect_longs(const Value& value, std::vector<std::int64_t> wanted,
                  std::vector<std::int64_t> shape) {
  const auto& found = std::get<at::Tensor>(value);
  EXPECT_TRUE(found.equal(at::tensor(wanted, at::kLong).reshape(shape))) << found;
}

// A graph with the signature "f" from "x" (float, any shape) to the tensor "y".
graph::MetaGraph graph_of(std::vector<NodeDef> nodes) {
  graph::MetaGraph meta;
  meta.tags = {"serve"};
  meta.graph.nodes = std::move(nodes);
  meta.graph.nodes.push_back(graph::placeholder_node("x", DataType::kFloat, graph::Shape::any()));
  graph::SignatureDef signature;
  signature.inputs["x"] = {.name = "x:0", .dtype = DataType::kFloat, .shape = graph::Shape::any()};
  signature.outputs["y"] = {.name = "y:0", .dtype = DataType::kFloat, .shape = graph::Shape::any()};
  meta.signatures["f"] = signature;
  return meta;
}

NodeDef node(std::string name, std::string op, std::vector<std::string> inputs,
             graph::Attrs attrs = {}) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = std::move(inputs),
          .attrs = std::move(attrs)};
}

TEST(ExecutableModel, RunsWhatTensorFlow1Wrote) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto model = ExecutableModel::load(data / "tensorflow/half_plus_two/00000123");
  const Values out = model.run("serving_default", {{"x", floats({1, 2, 5}).reshape({3, 1})}});
  EXPECT_THAT(numbers(out.at("y")), ElementsAre(2.5F, 3.0F, 4.5F));
  EXPECT_THAT(shape_of(out.at("y")), ElementsAre(3, 1));
}

TEST(ExecutableModel, ParsesExamplesAsTensorFlow1Wrote) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto model = ExecutableModel::load(data / "tensorflow/half_plus_two/00000123");
  ExampleBuilder builder;
  builder.add_float("x", 4.0F);
  const std::string example(builder.serialize());
  const Values out = model.run("regress_x_to_y", {{"inputs", StringTensor({example, example})}});
  EXPECT_THAT(numbers(out.at("outputs")), ElementsAre(4.0F, 4.0F));
}

TEST(ExecutableModel, FillsTheTablesOfTensorFlow2FromAssets) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto model = ExecutableModel::load(data / "tensorflow/static_hash_table");
  const Values out = model.run("serving_default",
                               {{"word", StringTensor({"foo", "wombat", "none of them"}, {3, 1})}});
  // The file has the ends of lines that Windows writes.
  expect_longs(out.at("output_0"), {0, 3, -1}, {3, 1});
}

TEST(ExecutableModel, RestoresVariablesAndCallsFunctionsOfTensorFlow2) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto model = ExecutableModel::load(data / "tensorflow/vars_and_arithmetic");
  const auto ask = [&](float a, float b) {
    const Values out =
        model.run("serving_default", {{"a", at::scalar_tensor(a)}, {"b", at::scalar_tensor(b)}});
    return std::get<at::Tensor>(out.begin()->second).item<float>();
  };
  // (a + x) * (b + y) / z + constant, with x = 1, y = 2, z = 3 and the constant 5.
  EXPECT_FLOAT_EQ(ask(2, 4), (2 + 1) * (4 + 2) / 3.0F + 5);
  EXPECT_FLOAT_EQ(ask(-1, 4), 5);
}

TEST(ExecutableModel, NamesOperationAndNodeThatItLacks) {
  const auto text =
      message_of([] { ExecutableModel::from(graph_of({node("y", "FlyToTheMoon", {"x"})}), {}); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("FlyToTheMoon"), HasSubstr("node y"), HasSubstr("signature f")));
}

TEST(ExecutableModel, LeavesAloneWhatNoSignatureNeeds) {
  const auto model = ExecutableModel::from(
      graph_of({node("y", "Neg", {"x"}), node("other", "FlyToTheMoon", {"x"})}), {});
  EXPECT_THAT(numbers(model.run("f", {{"x", floats({3})}}).at("y")), ElementsAre(-3.0F));
}

TEST(ExecutableModel, RefusesACycleAndAnInputThatIsNotThere) {
  EXPECT_THAT(message_of([] {
                ExecutableModel::from(
                    graph_of({node("y", "Add", {"x", "z"}), node("z", "Neg", {"y"})}), {});
              }),
              HasSubstr("cycle"));
  EXPECT_THAT(message_of([] { ExecutableModel::from(graph_of({node("y", "Neg", {"w"})}), {}); }),
              AllOf(HasSubstr("node y (Neg)"), HasSubstr("w")));
}

TEST(ExecutableModel, ChecksInputsAgainstTheSignature) {
  const auto model = ExecutableModel::from(graph_of({node("y", "Neg", {"x"})}), {});
  EXPECT_THAT(message_of([&] { model.run("f", {}); }), HasSubstr("needs the input x"));
  EXPECT_THAT(message_of([&] {
                model.run("f", {{"x", at::ones({2}, at::kLong)}});
              }),
              AllOf(HasSubstr("DT_FLOAT"), HasSubstr("DT_INT64 [2]")));
  EXPECT_THAT(message_of([&] {
                model.run("f", {{"x", floats({1})}, {"z", floats({1})}});
              }),
              HasSubstr("no input z"));
  EXPECT_THAT(message_of([&] { model.run("g", {{"x", floats({1})}}); }), HasSubstr("there are f"));
}

TEST(ExecutableModel, LooksAtShapesOfPlaceholdersAloneWhereThatIsAsked) {
  graph::MetaGraph meta = graph_of({node("y", "Neg", {"x"}), node("z", "Neg", {"y"})});
  meta.signatures["f"].inputs["x"].shape = {-1, 7};
  meta.signatures["g"] = {
      .inputs = {{"y", {.name = "y:0", .dtype = graph::DataType::kFloat, .shape = {-1, 7}}}},
      .outputs = {{"z", {.name = "z:0", .dtype = graph::DataType::kFloat}}}};
  const Values two{{"y", floats({1, 2})}};
  EXPECT_THROW(ExecutableModel::from(meta, {}).run("g", two), InvalidArgument);
  const auto model = ExecutableModel::from(meta, {}, {.declared_shapes = false});
  EXPECT_EQ(shape_of(model.run("g", two).at("z")), std::vector<std::int64_t>{2});
  for (graph::NodeDef& one : meta.graph.nodes) {
    if (one.op == "Placeholder") one = graph::placeholder_node("x", graph::DataType::kFloat, {3});
  }
  EXPECT_THROW(
      ExecutableModel::from(meta, {}, {.declared_shapes = false}).run("f", {{"x", floats({1, 2})}}),
      InvalidArgument);
}

TEST(ExecutableModel, NamesTheNodeWhoseTypesDiffer) {
  const auto model = ExecutableModel::from(
      graph_of({graph::constant_node("one", TensorValue::scalar<std::int64_t>(1)),
                node("y", "Add", {"x", "one"})}),
      {});
  EXPECT_THAT(message_of([&] {
                model.run("f", {{"x", floats({1})}});
              }),
              AllOf(HasSubstr("node y (Add)"), HasSubstr("DT_INT64")));
}

TEST(ExecutableModel, SaysWhichVariableHasNoValue) {
  const auto model = ExecutableModel::from(
      graph_of(
          {node("v", "VarHandleOp", {}, {{"dtype", DataType::kFloat}, {"shared_name", "weights"}}),
           node("r", "ReadVariableOp", {"v"}, {{"dtype", DataType::kFloat}}),
           node("y", "Mul", {"x", "r"})}),
      {});
  EXPECT_THAT(message_of([&] { model.run("f", {{"x", floats({1})}}); }), HasSubstr("weights"));
}

TEST(ExecutableModel, RefusesFunctionsThatCallThemselves) {
  auto meta = graph_of({node("y", "PartitionedCall", {"x"}, {{"f", graph::FunctionRef{"g"}}})});
  graph::FunctionDef function;
  function.signature.name = "g";
  function.signature.inputs = {{.name = "a", .type = DataType::kFloat}};
  function.signature.outputs = {{.name = "b", .type = DataType::kFloat}};
  function.nodes = {node("again", "PartitionedCall", {"a"}, {{"f", graph::FunctionRef{"g"}}})};
  function.ret = {{"b", "again:output:0"}};
  meta.graph.functions = {function};
  EXPECT_THAT(message_of([&] { ExecutableModel::from(meta, {}); }), HasSubstr("calls itself"));
}

TEST(ExecutableModel, FindsOutputsOfFunctionsByTheirNames) {
  auto meta = graph_of({node("y", "PartitionedCall", {"x"}, {{"f", graph::FunctionRef{"g"}}})});
  graph::FunctionDef function;
  function.signature.name = "g";
  function.signature.inputs = {{.name = "a", .type = DataType::kFloat}};
  function.signature.outputs = {{.name = "b", .type = DataType::kFloat}};
  function.nodes = {graph::constant_node("k", TensorValue::scalar<std::int32_t>(2)),
                    node("top", "TopKV2", {"a", "k:output:0"}),
                    node("cast", "Cast", {"top:indices:0"}, {{"DstT", DataType::kFloat}})};
  function.ret = {{"b", "cast:y:0"}};
  meta.graph.functions = {function};
  const auto model = ExecutableModel::from(meta, {});
  EXPECT_THAT(numbers(model.run("f", {{"x", floats({1, 7, 3, 7})}}).at("y")), ElementsAre(1, 3));
}

// Variables of one value each, under these names, beside a graph that reads and restores them.
graph::MetaGraph restoring_graph(const std::string& tensor) {
  auto meta =
      graph_of({node("v", "VariableV2", {}, {{"dtype", DataType::kFloat}}),
                node("r", "Identity", {"v"}), node("y", "Mul", {"x", "r"}),
                graph::constant_node("file", TensorValue::string_scalar("elsewhere")),
                graph::constant_node("names", TensorValue::of_strings({1}, {tensor})),
                graph::constant_node("slices", TensorValue::of_strings({1}, {""})),
                node("restore", "RestoreV2", {"file", "names", "slices"},
                     {{"dtypes", AttrValue::list(std::vector<DataType>{DataType::kFloat})}}),
                node("assign", "Assign", {"v", "restore"}), node("all", "NoOp", {"^assign"})});
  meta.saver = graph::Saver{.filename_tensor = "file:0", .restore_op = "all"};
  return meta;
}

void write_variable(const testing::TempDir& dir, const std::string& name, float value) {
  std::filesystem::create_directories(dir / "variables");
  BundleWriter writer(dir / "variables/variables");
  writer.add({.name = name, .shape = {}, .bytes = std::as_bytes(std::span(&value, 1))});
  writer.finish();
}

TEST(ExecutableModel, RestoresVariablesAsTheSaverSays) {
  const testing::TempDir dir;
  write_variable(dir, "layer/weight", 3);
  const auto model = ExecutableModel::from(restoring_graph("layer/weight"), dir.path());
  EXPECT_THAT(numbers(model.run("f", {{"x", floats({2})}}).at("y")), ElementsAre(6.0F));
}

TEST(ExecutableModel, NamesTheFileThatAHalfCopiedFolderLacks) {
  for (const bool has_saver : {true, false}) {
    const testing::TempDir dir;
    auto meta = restoring_graph("v");
    if (!has_saver) meta.saver.reset();
    meta.assets.push_back({.tensor = {.name = "asset:0"}, .filename = "words.txt"});
    const auto load = [&] { return ExecutableModel::from(meta, dir.path()); };
    EXPECT_THAT(testing::message_of(load), HasSubstr((dir / "assets/words.txt").string()));
    std::filesystem::create_directories(dir / "assets");
    testing::write_bytes(dir / "assets/words.txt", "a");
    EXPECT_THAT(testing::message_of(load),
                AllOf(HasSubstr((dir / "variables/variables.index").string()), HasSubstr("v")));
    write_variable(dir, "v", 3);
    const Path data = dir / "variables/variables.data-00000-of-00001";
    const std::string bytes = testing::read_bytes(data);
    testing::write_bytes(data, bytes.substr(1));
    EXPECT_THAT(testing::message_of(load), HasSubstr(data.string()));
    testing::write_bytes(data, bytes);
    EXPECT_THAT(numbers(load().run("f", {{"x", floats({2})}}).at("y")), ElementsAre(6.0F));
  }
}

// With a saver and without one, and whichever file it is.
TEST(ExecutableModel, ReadsNoVariablesThatALinkLeadsTo) {
  for (const char* ending : {".index", ".data-00000-of-00001"}) {
    for (const bool has_saver : {true, false}) {
      const testing::TempDir dir, elsewhere;
      write_variable(dir, "v", 3);
      const Path file = dir / (std::string("variables/variables") + ending);
      std::filesystem::rename(file, elsewhere / "file");
      std::filesystem::create_symlink(elsewhere / "file", file);
      auto meta = restoring_graph("v");
      if (!has_saver) meta.saver.reset();
      EXPECT_THAT(testing::message_of([&] { ExecutableModel::from(meta, dir.path()); }),
                  AllOf(HasSubstr(file.string()), HasSubstr("outside of")))
          << has_saver;
    }
  }
}

TEST(ExecutableModel, ReadsAgainWhatASignatureAssigns) {
  const testing::TempDir dir;
  write_variable(dir, "layer/weight", 3);
  auto meta = restoring_graph("layer/weight");
  meta.graph.nodes.push_back(node("set", "Assign", {"v", "x"}));
  meta.graph.nodes.push_back(node("done", "Identity", {"set"}));
  meta.signatures["set"] = meta.signatures["f"];
  meta.signatures["set"].outputs["y"].name = "done:0";
  const auto model = ExecutableModel::from(meta, dir.path());
  EXPECT_THAT(numbers(model.run("f", {{"x", floats({2})}}).at("y")), ElementsAre(6.0F));
  model.run("set", {{"x", floats({5})}});
  EXPECT_THAT(numbers(model.run("f", {{"x", floats({2})}}).at("y")), ElementsAre(10.0F));
}

TEST(ExecutableModel, ComputesOnceWhatNoInputChanges) {
  // The constant part of the graph fails, but no step reads it unless the input is there.
  auto meta = graph_of({graph::constant_node("a", TensorValue::vector(std::vector<float>{1, 2})),
                        graph::constant_node("b", TensorValue::vector(std::vector<float>{1, 2, 3})),
                        node("bad", "AddV2", {"a", "b"}), node("y", "Mul", {"x", "bad"}),
                        node("twice", "AddV2", {"a", "a"}), node("z", "Identity", {"twice"})});
  meta.signatures["g"].outputs["z"] = {
      .name = "z:0", .dtype = DataType::kFloat, .shape = graph::Shape::any()};
  const auto model = ExecutableModel::from(meta, {});
  const auto first = std::get<at::Tensor>(model.run("g", {}).at("z"));
  EXPECT_THAT(numbers(first), ElementsAre(2, 4));
  EXPECT_TRUE(first.is_same(std::get<at::Tensor>(model.run("g", {}).at("z"))));
  EXPECT_THAT(message_of([&] {
                model.run("f", {{"x", floats({1})}});
              }),
              HasSubstr("node bad (AddV2)"));
}

TEST(ExecutableModel, KeepsNothingLargeThatItCanComputeAgain) {
  auto meta = graph_of(
      {graph::constant_node("size", TensorValue::vector(std::vector<std::int32_t>{1 << 21})),
       graph::constant_node("one", TensorValue::scalar(1.0F)), node("y", "Fill", {"size", "one"})});
  const auto model = ExecutableModel::from(meta, {});
  const auto first = std::get<at::Tensor>(model.run("f", {{"x", floats({1})}}).at("y"));
  const auto second = std::get<at::Tensor>(model.run("f", {{"x", floats({1})}}).at("y"));
  EXPECT_EQ(first.numel(), 1 << 21);
  EXPECT_FALSE(first.is_alias_of(second));
}

TEST(ExecutableModel, NamesTheVariableThatTheBundleLacks) {
  const testing::TempDir dir;
  write_variable(dir, "layer/weight", 3);
  EXPECT_THAT(message_of([&] { ExecutableModel::from(restoring_graph("layer/bias"), dir.path()); }),
              AllOf(HasSubstr("node restore (RestoreV2)"), HasSubstr("layer/bias")));
}

TEST(ExecutableModel, ReadsNoFilesButItsOwn) {
  const testing::TempDir dir;
  write_variable(dir, "layer/weight", 3);
  auto meta = restoring_graph("layer/weight");
  // The tensor that is fed with the right name is not the one that RestoreV2 reads.
  meta.graph.nodes.push_back(
      graph::constant_node("other", TensorValue::string_scalar("/etc/passwd")));
  meta.saver->filename_tensor = "other:0";
  EXPECT_THROW(ExecutableModel::from(meta, dir.path()), PermissionDenied);

  auto table =
      graph_of({node("t", "HashTableV2", {},
                     {{"key_dtype", DataType::kString}, {"value_dtype", DataType::kInt64}}),
                graph::constant_node("file", TensorValue::string_scalar("/etc/passwd")),
                node("fill", "InitializeTableFromTextFileV2", {"t", "file"},
                     {{"key_index", -2}, {"value_index", -1}}),
                node("y", "Identity", {"x", "^fill"})});
  const auto model = ExecutableModel::from(table, dir.path());
  EXPECT_THROW(model.run("f", {{"x", floats({2})}}), PermissionDenied);
}

TEST(ExecutableModel, DoesNotFollowAnAssetOutOfItsFolder) {
  const testing::TempDir dir;
  const auto refusal = [](const Path& folder) {
    const auto file = TensorValue::string_scalar((folder / "assets" / "words.txt").string());
    auto table =
        graph_of({node("t", "HashTableV2", {},
                       {{"key_dtype", DataType::kString}, {"value_dtype", DataType::kInt64}}),
                  graph::constant_node("file", file),
                  node("fill", "InitializeTableFromTextFileV2", {"t", "file"},
                       {{"key_index", -2}, {"value_index", -1}}),
                  node("y", "Identity", {"x", "^fill"})});
    const auto model = ExecutableModel::from(table, folder);
    return message_of([&] { model.run("f", {{"x", floats({2})}}); });
  };
  std::filesystem::create_directories(dir / "elsewhere");
  testing::write_bytes(dir / "elsewhere" / "words.txt", "a\nb\n");
  std::filesystem::create_directories(dir / "file" / "assets");
  std::filesystem::create_symlink("../../elsewhere/words.txt", dir / "file/assets/words.txt");
  EXPECT_THAT(refusal(dir / "file"), HasSubstr("outside of"));
  std::filesystem::create_directories(dir / "folder");
  std::filesystem::create_directory_symlink("../elsewhere", dir / "folder/assets");
  EXPECT_THAT(refusal(dir / "folder"), HasSubstr("outside of"));
  std::filesystem::create_directories(dir / "fifo" / "assets");
  ASSERT_EQ(::mkfifo((dir / "fifo/assets/words.txt").c_str(), 0600), 0);
  EXPECT_THAT(refusal(dir / "fifo"), HasSubstr("not a regular file"));
}

TEST(ExecutableModel, ReadsItsAssetsAndNothingElse) {
  const testing::TempDir dir;
  const Path assets = dir / "model" / "assets";
  std::filesystem::create_directories(assets / "inner");
  testing::write_bytes(assets / "words.txt", "a\nb\n");
  testing::write_bytes(assets / "inner" / "more.txt", "c");
  testing::write_bytes(dir / "model" / "other.txt", "d");
  testing::write_bytes(dir / "outside.txt", "e");
  std::filesystem::create_symlink("../../outside.txt", assets / "link.txt");
  graph::MetaGraph meta;
  meta.graph.nodes = {graph::placeholder_node("x", DataType::kString, graph::Shape{}),
                      node("y", "ReadFile", {"x"})};
  const graph::TensorInfo text{.dtype = DataType::kString, .shape = {}};
  meta.signatures["f"].inputs["x"] = text;
  meta.signatures["f"].inputs["x"].name = "x:0";
  meta.signatures["f"].outputs["y"] = text;
  meta.signatures["f"].outputs["y"].name = "y:0";
  const auto model = ExecutableModel::from(meta, dir / "model");
  const auto read = [&](const Path& path) {
    const Values out = model.run("f", {{"x", StringTensor({path.string()}, {})}});
    const auto& read_text = std::get<StringTensor>(out.at("y"));
    EXPECT_TRUE(read_text.shape().empty());
    return read_text.values()[0];
  };
  EXPECT_EQ(read(assets / "words.txt"), "a\nb\n");
  EXPECT_EQ(read(assets / "inner" / ".." / "inner" / "more.txt"), "c");
  for (const Path& path : {Path("/etc/passwd"), dir / "model/other.txt", assets / "../other.txt",
                           assets, Path("words.txt"), Path()}) {
    EXPECT_THROW(read(path), PermissionDenied) << path;
  }
  EXPECT_THAT(message_of([&] { read(assets / "link.txt"); }),
              AllOf(HasSubstr("node y (ReadFile)"), HasSubstr("outside of")));
  EXPECT_THROW(read(assets / "none.txt"), NotFound);
  EXPECT_THROW(ExecutableModel::from(meta, {}).run("f", {{"x", StringTensor({"/etc/passwd"}, {})}}),
               PermissionDenied);
}

TEST(ExecutableModel, LooksUpInATableThatTheGraphFills) {
  const auto model = ExecutableModel::from(
      graph_of({node("t", "HashTableV2", {},
                     {{"key_dtype", DataType::kInt64}, {"value_dtype", DataType::kFloat}}),
                graph::constant_node("keys", TensorValue::vector<std::int64_t>({4, 9})),
                graph::constant_node("values", TensorValue::vector<float>({0.4F, 0.9F})),
                graph::constant_node("other", TensorValue::scalar<float>(-1)),
                node("fill", "InitializeTableV2", {"t", "keys", "values"}),
                node("ids", "Cast", {"x"}, {{"DstT", DataType::kInt64}}),
                node("y", "LookupTableFindV2", {"t", "ids", "other", "^fill"})}),
      {});
  EXPECT_THAT(numbers(model.run("f", {{"x", floats({9, 5, 4})}}).at("y")),
              ElementsAre(0.9F, -1.0F, 0.4F));
}

TEST(ExecutableModel, AnswersManyThreadsAtOnce) {
  const auto model = ExecutableModel::from(
      graph_of({node("s", "Square", {"x"}), node("y", "Add", {"s", "x"})}), {});
  std::vector<float> answers(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      threads.emplace_back([&, i] {
        answers[i] = numbers(model.run("f", {{"x", floats({static_cast<float>(i)})}}).at("y"))[0];
      });
    }
  }
  EXPECT_THAT(answers, ElementsAre(0, 2, 6, 12));
}

}  // namespace
}  // namespace muster::executor
