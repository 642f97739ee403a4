// `muster model show`, as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using ::testing::StartsWith;
using testing::TempDir;

Outcome show(const std::vector<std::string>& arguments) {
  std::vector<std::string> all{"model", "show"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return testing::run_program(MUSTER_PROGRAM, all);
}

void write_model(const Path& dir) {
  graph::MetaGraph serve{.tags = {"serve"}};
  serve.signatures["predict"] = {
      .inputs =
          {{"x", {.name = "Placeholder:0", .dtype = graph::DataType::kFloat, .shape = {-1, 1}}},
           {"any",
            {.name = "p:0", .dtype = graph::DataType::kString, .shape = graph::Shape::any()}}},
      .outputs = {{"y",
                   {.name = "add:0", .dtype = graph::DataType::kInt64, .shape = graph::Shape()}}},
      .method_name = std::string(graph::kPredictMethod)};
  serve.signatures["again"] = serve.signatures["predict"];
  const graph::MetaGraph train{.tags = {"train", "gpu"}};
  graph::write_saved_model(dir, {.meta_graphs = {train, serve}});
}

TEST(ModelShow, PrintsTagSets) {
  const TempDir dir;
  write_model(dir / "m");
  EXPECT_EQ(show({"--dir", dir / "m"}).out,
            "The given SavedModel contains the following tag-sets:\n'serve'\n'gpu, train'\n");
}

TEST(ModelShow, PrintsTheSignaturesOfATagSet) {
  const TempDir dir;
  write_model(dir / "m");
  EXPECT_EQ(show({"--dir", dir / "m", "--tag_set", "serve"}).out,
            "The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:\n"
            "SignatureDef key: \"again\"\nSignatureDef key: \"predict\"\n");
  EXPECT_EQ(show({"--dir", dir / "m", "--tag_set", "gpu,train"}).status, 0);
}

TEST(ModelShow, PrintsTheTensorsOfASignature) {
  const TempDir dir;
  write_model(dir / "m");
  EXPECT_EQ(show({"--dir", dir / "m", "--tag", "serve", "--signature_def", "predict"}).out,
            "The given SavedModel SignatureDef contains the following input(s):\n"
            "  inputs['any'] tensor_info:\n"
            "      dtype: DT_STRING\n"
            "      shape: unknown_rank\n"
            "      name: p:0\n"
            "  inputs['x'] tensor_info:\n"
            "      dtype: DT_FLOAT\n"
            "      shape: (-1, 1)\n"
            "      name: Placeholder:0\n"
            "The given SavedModel SignatureDef contains the following output(s):\n"
            "  outputs['y'] tensor_info:\n"
            "      dtype: DT_INT64\n"
            "      shape: ()\n"
            "      name: add:0\n"
            "Method name is: tensorflow/serving/predict\n");
}

TEST(ModelShow, PrintsAllOfAModelOfTensorFlow) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Outcome all = show({"--dir", data / "tensorflow/half_plus_two/00000123", "--all"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(
      all.out,
      StartsWith("\nMetaGraphDef with tag-set: 'serve' contains the following SignatureDefs:\n"
                 "\nsignature_def['classify_x2_to_y3']:\n"
                 "  The given SavedModel SignatureDef contains the following input(s):\n"
                 "    inputs['inputs'] tensor_info:\n"
                 "        dtype: DT_FLOAT\n"
                 "        shape: (-1, 1)\n"
                 "        name: x2:0\n"
                 "  The given SavedModel SignatureDef contains the following output(s):\n"
                 "    outputs['scores'] tensor_info:\n"
                 "        dtype: DT_FLOAT\n"
                 "        shape: (-1, 1)\n"
                 "        name: y3:0\n"
                 "  Method name is: tensorflow/serving/classify\n"
                 "\nsignature_def['classify_x_to_y']:\n"));
  EXPECT_THAT(
      all.out,
      HasSubstr("  Method name is: tensorflow/serving/predict\n"
                "The MetaGraph with tag set ['serve'] contains the following ops: {'Add', "));
}

// TensorFlow 2 has a signature for what is run after loading; its name has no type and no shape.
TEST(ModelShow, PrintsModelsOfTensorFlow2AsItsToolDoes) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Path dir = data / "tensorflow/static_hash_table";
  EXPECT_EQ(show({"--dir", dir}).out,
            "The given SavedModel contains the following tag-sets:\n'serve'\n");
  EXPECT_EQ(show({"--dir", dir, "--all"}).out,
            "\nMetaGraphDef with tag-set: 'serve' contains the following SignatureDefs:\n"
            "\nsignature_def['__saved_model_init_op']:\n"
            "  The given SavedModel SignatureDef contains the following input(s):\n"
            "  The given SavedModel SignatureDef contains the following output(s):\n"
            "    outputs['__saved_model_init_op'] tensor_info:\n"
            "        dtype: DT_INVALID\n"
            "        shape: unknown_rank\n"
            "        name: NoOp\n"
            "  Method name is: \n"
            "\nsignature_def['serving_default']:\n"
            "  The given SavedModel SignatureDef contains the following input(s):\n"
            "    inputs['word'] tensor_info:\n"
            "        dtype: DT_STRING\n"
            "        shape: unknown_rank\n"
            "        name: serving_default_word:0\n"
            "  The given SavedModel SignatureDef contains the following output(s):\n"
            "    outputs['output_0'] tensor_info:\n"
            "        dtype: DT_INT64\n"
            "        shape: unknown_rank\n"
            "        name: StatefulPartitionedCall_1:0\n"
            "  Method name is: tensorflow/serving/predict\n"
            "The MetaGraph with tag set ['serve'] contains the following ops: {'AssignVariableOp', "
            "'Const', 'HashTableV2', 'Identity', 'InitializeTableFromTextFileV2', "
            "'LookupTableFindV2', 'MergeV2Checkpoints', 'NoOp', 'Pack', 'Placeholder', "
            "'ReadVariableOp', 'RestoreV2', 'SaveV2', 'Select', 'ShardedFilename', "
            "'StatefulPartitionedCall', 'StaticRegexFullMatch', 'StringJoin', 'VarHandleOp', "
            "'VarIsInitializedOp'}\n");
  EXPECT_EQ(show({"--dir", data / "tensorflow/vars_and_arithmetic", "--tag_set", "serve",
                  "--signature_def", "serving_default"})
                .out,
            "The given SavedModel SignatureDef contains the following input(s):\n"
            "  inputs['a'] tensor_info:\n"
            "      dtype: DT_FLOAT\n"
            "      shape: ()\n"
            "      name: serving_default_a:0\n"
            "  inputs['b'] tensor_info:\n"
            "      dtype: DT_FLOAT\n"
            "      shape: ()\n"
            "      name: serving_default_b:0\n"
            "The given SavedModel SignatureDef contains the following output(s):\n"
            "  outputs['output_0'] tensor_info:\n"
            "      dtype: DT_FLOAT\n"
            "      shape: ()\n"
            "      name: StatefulPartitionedCall:0\n"
            "Method name is: tensorflow/serving/predict\n");
}

/// A graph that reads a file inside of a function that a function calls.
void write_reading_model(const Path& dir) {
  graph::MetaGraph meta{.tags = {"serve"}};
  const auto call = [](const char* name, const char* function) {
    return graph::NodeDef{.name = name,
                          .op = "PartitionedCall",
                          .attrs = {{"f", graph::FunctionRef{.name = function}}}};
  };
  const auto function = [](const char* name, std::vector<graph::NodeDef> nodes) {
    graph::FunctionDef made;
    made.signature.name = name;
    made.nodes = std::move(nodes);
    return made;
  };
  meta.graph.nodes = {call("outer_call", "outer"), {.name = "none", .op = "NoOp"}};
  meta.graph.functions = {function("outer", {call("inner_call", "inner")}),
                          function("inner", {{.name = "read", .op = "ReadFile"}}),
                          function("never", {{.name = "write", .op = "WriteFile"}})};
  meta.function_aliases = {{"outer", "serve_files"}};
  graph::write_saved_model(dir, {.meta_graphs = {meta}});
}

TEST(ModelShow, ListsOperationsAlsoOfFunctions) {
  const TempDir dir;
  write_reading_model(dir / "1");
  const std::string ops = "{'NoOp', 'PartitionedCall', 'ReadFile'}\n";
  // The newest of numbered exports is shown.
  EXPECT_EQ(show({"--dir", dir.path(), "--tag_set", "serve", "--list_ops"}).out,
            "The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:\n"
            "The MetaGraph with tag set serve contains the following ops: " +
                ops);
  EXPECT_EQ(show({"--dir", dir.path(), "--all"}).out,
            "\nMetaGraphDef with tag-set: 'serve' contains the following SignatureDefs:\n"
            "The MetaGraph with tag set ['serve'] contains the following ops: " +
                ops + "\nConcrete Functions:\n  Function Name: 'serve_files'\n");
  EXPECT_EQ(show({"--dir", dir.path(), "--list_ops"}).status, 2);
}

TEST(ModelScan, NamesOperationsThatReachOutOfTheGraph) {
  const TempDir dir;
  write_reading_model(dir / "m");
  const auto scan = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"model", "scan", "--dir", dir / "m"});
    return testing::run_program(MUSTER_PROGRAM, words).out;
  };
  EXPECT_EQ(
      scan({}),
      "MetaGraph with tag set ['serve'] contains the following denylisted ops: {'ReadFile'}\n");
  EXPECT_EQ(scan({"--tag_set", "serve", "--op_denylist", "PrintV2,WriteFile"}),
            "MetaGraph with tag set ['serve'] does not contain the default denylisted ops: "
            "{'PrintV2', 'WriteFile'}\n");
}

TEST(ModelShow, SaysWhatThereIsWhenAskedForSomethingElse) {
  const TempDir dir;
  write_model(dir / "m");
  const Outcome tags = show({"--dir", dir / "m", "--tag_set", "eval"});
  EXPECT_EQ(tags.status, 1);
  EXPECT_THAT(tags.err,
              HasSubstr("no graph has the tags 'eval'; the SavedModel has 'gpu,train', 'serve'"));
  const Outcome key = show({"--dir", dir / "m", "--tag_set", "serve", "--signature_def", "z"});
  EXPECT_THAT(key.err, HasSubstr("there is no signature 'z'; the graph has 'again', 'predict'"));
  EXPECT_EQ(show({"--dir", dir / "m", "--signature_def", "z"}).status, 2);
  EXPECT_EQ(show({"--dir", dir / "nothing"}).status, 1);
}

}  // namespace
}  // namespace muster
