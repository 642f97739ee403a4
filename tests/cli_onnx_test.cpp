// `muster export onnx` and `muster export graphdef`, as processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using graph::DataType;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::read_bytes;
using testing::TempDir;
using testing::write_bytes;

Outcome export_as(const std::string& format, const std::vector<std::string>& arguments) {
  std::vector<std::string> all{"export", format};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return testing::run_program(MUSTER_PROGRAM, all);
}

// y = x * weight, and the name of y.
graph::MetaGraph product() {
  const graph::Attrs floats{{"T", DataType::kFloat}};
  graph::MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = {graph::placeholder_node("x", DataType::kFloat, {-1, 1}),
                      {.name = "weight",
                       .op = "VarHandleOp",
                       .attrs = {{"dtype", DataType::kFloat}, {"shape", graph::Shape{1}}}},
                      {.name = "read",
                       .op = "ReadVariableOp",
                       .inputs = {"weight"},
                       .attrs = {{"dtype", DataType::kFloat}}},
                      {.name = "product", .op = "Mul", .inputs = {"x", "read"}, .attrs = floats},
                      {.name = "name", .op = "AsString", .inputs = {"product"}, .attrs = floats}};
  const auto tensor = [](const char* name, DataType type) {
    return graph::TensorInfo{.name = name, .sparse = {}, .dtype = type, .shape = {-1, 1}};
  };
  meta.signatures["serving_default"] = {.inputs = {{"x", tensor("x:0", DataType::kFloat)}},
                                        .outputs = {{"y", tensor("product:0", DataType::kFloat)},
                                                    {"name", tensor("name:0", DataType::kString)}},
                                        .method_name = std::string(graph::kPredictMethod)};
  return meta;
}

void write_weight(const Path& prefix, float value) {
  std::filesystem::create_directories(prefix.parent_path());
  BundleWriter writer(prefix);
  writer.add({.name = "weight",
              .type = DataType::kFloat,
              .shape = {1},
              .bytes = std::as_bytes(std::span(&value, 1))});
  writer.finish();
}

// The bytes of a float, as both formats have them.
std::string bytes_of(float value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

TEST(ExportOnnx, TakesTheNewestOfNumberedSavedModels) {
  const TempDir dir;
  for (const auto& [number, value] : {std::pair{"7", 7.5F}, std::pair{"10", 10.5F}}) {
    std::filesystem::create_directories(dir / "base");
    graph::write_saved_model(dir / "base" / number, {.meta_graphs = {product()}},
                             [weight = value](const Path& folder) {
                               write_weight(graph::variables_prefix(folder), weight);
                             });
  }
  const auto outcome =
      export_as("onnx", {"--saved-model", dir / "base", "--output", dir / "model.onnx"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, (dir / "model.onnx").string() + "\n");
  EXPECT_THAT(outcome.err, HasSubstr("outputs skipped, since they are strings"));
  EXPECT_THAT(read_bytes(dir / "model.onnx"),
              AllOf(HasSubstr(bytes_of(10.5F)), HasSubstr("weight"), HasSubstr("batch")));
}

TEST(ExportOnnx, JoinsAModelDirWithACheckpoint) {
  const TempDir dir;
  graph::SavedModel model{.meta_graphs = {product()}};
  write_bytes(dir / "graph.pb", graph::encode_saved_model(model));
  write_weight(dir / "model.ckpt-3", 3.5F);
  write_weight(dir / "model.ckpt-4", 4.5F);
  const auto outcome = export_as("graphdef", {"--model-dir", dir.path(), "--checkpoint",
                                              dir / "model.ckpt-3", "--output", dir / "model.pb"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto frozen = graph::decode_graph(read_bytes(dir / "model.pb"));
  ASSERT_EQ(frozen.nodes.size(), 3U);
  EXPECT_EQ(graph::attr<graph::TensorValue>(frozen.nodes[1], "value").values<float>(),
            std::vector<float>{3.5F});
}

TEST(ExportOnnx, SaysWhatIsWrong) {
  const TempDir dir;
  const std::string output = dir / "model.onnx";
  const auto neither = export_as("onnx", {"--output", output});
  EXPECT_EQ(neither.status, 2);
  EXPECT_THAT(neither.err, HasSubstr("--saved-model or --model-dir"));
  const auto odd =
      export_as("onnx", {"--saved-model", "a", "--checkpoint", "b", "--output", output});
  EXPECT_EQ(odd.status, 2);
  EXPECT_THAT(odd.err, HasSubstr("--checkpoint needs --model-dir"));
  graph::write_saved_model(dir / "m", {.meta_graphs = {product()}});
  const auto empty = export_as("onnx", {"--saved-model", dir / "m", "--output", output});
  EXPECT_EQ(empty.status, 1);
  EXPECT_THAT(empty.err, HasSubstr("the variable 'weight' has no value"));
  const auto strings =
      export_as("onnx", {"--saved-model", dir / "m", "--outputs", "name", "--output", output});
  EXPECT_THAT(strings.err, HasSubstr("no output of the signature is left"));
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(ExportOnnx, ConvertsAModelOfTensorFlow) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const TempDir dir;
  const auto outcome = export_as("onnx", {"--saved-model", data / "tensorflow" / "half_plus_two",
                                          "--output", dir / "model.onnx"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(read_bytes(dir / "model.onnx"), AllOf(HasSubstr("Mul"), HasSubstr("Add")));
}

// Its variables are read inside a function, and restored inside another under other names.
TEST(ExportOnnx, ConvertsAModelOfTensorFlow2WithFunctions) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const TempDir dir;
  const Path model = data / "tensorflow" / "vars_and_arithmetic";
  const auto onnx = export_as("onnx", {"--saved-model", model, "--output", dir / "model.onnx"});
  EXPECT_EQ(onnx.status, 0) << onnx.err;
  EXPECT_THAT(read_bytes(dir / "model.onnx"), AllOf(HasSubstr("Add"), HasSubstr("output_0")));
  const auto frozen = export_as("graphdef", {"--saved-model", model, "--output", dir / "model.pb"});
  EXPECT_EQ(frozen.status, 0) << frozen.err;
  const auto graph = graph::decode_graph(read_bytes(dir / "model.pb"));
  EXPECT_TRUE(graph.functions.empty());
  for (const auto& node : graph.nodes) {
    EXPECT_THAT(node.op, Not(HasSubstr("Call"))) << node.name;
    EXPECT_THAT(node.op, Not(HasSubstr("Variable"))) << node.name;
  }
}

}  // namespace
}  // namespace muster
