#include "muster/saved_model/graph/saved_model.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "muster/base/error.h"
#include "muster/saved_model.pb.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"

namespace muster::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::read_bytes;
using testing::TempDir;
using ::testing::ThrowsMessage;
using testing::write_bytes;

SavedModel small_model() {
  MetaGraph meta{.tags = {"serve"},
                 .graph = {.nodes = {placeholder_node("x", DataType::kFloat, {-1, 2})},
                           .versions = {.producer = 134, .min_consumer = 12}},
                 .tensorflow_version = "1.13.0"};
  const TensorInfo x{.name = "x:0", .dtype = DataType::kFloat, .shape = {-1, 2}};
  meta.signatures["serving_default"] = {
      .inputs = {{"x", x}}, .outputs = {{"y", x}}, .method_name = std::string(kPredictMethod)};
  return {.meta_graphs = {meta}};
}

// Every field that this module knows.
constexpr const char* kFullModel = R"(
  saved_model_schema_version: 1
  meta_graphs {
    meta_info_def {
      meta_graph_version: "v1" stripped_op_list { op { name: "NoOp" summary: "nothing" } }
      tags: "serve" tags: "gpu" tensorflow_version: "1.4" tensorflow_git_version: "g"
      stripped_default_attrs: true function_aliases { key: "__f" value: "f" }
      any_info { type_url: "t" value: "v" }
    }
    graph_def { node { name: "n" op: "NoOp" } versions { producer: 24 } }
    saver_def { filename_tensor_name: "save/Const:0" save_tensor_name: "save/id:0"
                restore_op_name: "save/restore_all" max_to_keep: 5 sharded: true
                keep_checkpoint_every_n_hours: 10000 version: V2 }
    collection_def { key: "a" value { node_list { value: "n" } } }
    collection_def { key: "b" value { bytes_list { value: "\000" value: "" } } }
    collection_def { key: "c" value { int64_list { value: [1, -2] } } }
    collection_def { key: "d" value { float_list { value: 0.5 } } }
    collection_def { key: "e" value { any_list { value { type_url: "t" value: "v" } } } }
    collection_def { key: "f" value {} }
    signature_def { key: "s" value {
      inputs { key: "x" value { name: "x:0" dtype: DT_STRING tensor_shape { unknown_rank: true } } }
      inputs { key: "sparse" value { coo_sparse { values_tensor_name: "v" indices_tensor_name: "i"
               dense_shape_tensor_name: "d" } dtype: DT_INT64 tensor_shape { dim { size: -1 } } } }
      outputs { key: "y" value { name: "y:0" dtype: DT_FLOAT tensor_shape {} } }
      method_name: "tensorflow/serving/predict"
      defaults { key: "x" value { dtype: DT_STRING tensor_shape {} string_val: "d" } } } }
    asset_file_def { tensor_info { name: "Const:0" } filename: "words.txt" }
  }
)";

std::string difference(const std::string& a_bytes, const std::string& b_bytes) {
  proto::SavedModel a;
  proto::SavedModel b;
  EXPECT_TRUE(a.ParseFromString(a_bytes) && b.ParseFromString(b_bytes));
  google::protobuf::util::MessageDifferencer differencer;
  std::string report;
  differencer.ReportDifferencesToString(&report);
  return differencer.Compare(a, b) ? "" : report + "!";
}

TEST(SavedModel, PassesThroughAsProtobufWritesIt) {
  proto::SavedModel message;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kFullModel, &message));
  const std::string bytes = message.SerializeAsString();
  const SavedModel model = decode_saved_model(bytes);
  EXPECT_EQ(difference(bytes, encode_saved_model(model)), "");
  const MetaGraph& meta = model.meta_graphs.at(0);
  EXPECT_THAT(meta.tags, ElementsAre("serve", "gpu"));
  EXPECT_EQ(meta.stripped_ops.at(0).name, "NoOp");
  EXPECT_EQ(meta.saver->restore_op, "save/restore_all");
  EXPECT_EQ(meta.signatures.at("s").inputs.at("sparse").sparse->indices, "i");
  EXPECT_THAT(meta.signatures.at("s").defaults.at("x").strings, ElementsAre("d"));
  EXPECT_EQ(meta.assets.at(0).filename, "words.txt");
}

TEST(SavedModel, ATensorWithoutAShapeMayHaveAny) {
  const TempDir dir;
  write_bytes(dir / "saved_model.pbtxt", R"(
    saved_model_schema_version: 1
    meta_graphs { graph_def {} signature_def { key: "s" value {
      inputs { key: "x" value { name: "x:0" dtype: DT_FLOAT } }
      outputs { key: "y" value { name: "y:0" dtype: DT_FLOAT tensor_shape {} } } } }
      asset_file_def { tensor_info { name: "Const:0" } filename: "words.txt" } })");
  const SavedModel model = read_saved_model(dir.path());
  const SignatureDef& signature = model.meta_graphs.at(0).signatures.at("s");
  EXPECT_TRUE(signature.inputs.at("x").shape.unknown_rank);
  EXPECT_EQ(signature.outputs.at("y").shape, Shape());
  EXPECT_EQ(model.meta_graphs.at(0).assets.at(0).tensor.shape, Shape());
  EXPECT_EQ(decode_saved_model(encode_saved_model(model)), model);
}

TEST(SavedModel, ReadsTheTextForm) {
  const TempDir dir;
  write_bytes(dir / "saved_model.pbtxt", kFullModel);
  EXPECT_EQ(read_saved_model(dir.path()).meta_graphs.at(0).saver->max_to_keep, 5);
  write_bytes(dir / "saved_model.pbtxt",
              "saved_model_schema_version: 1\nmeta_graphs { graph_def: }");
  EXPECT_THAT([&] { read_saved_model(dir.path()); },
              ThrowsMessage<DataLoss>(HasSubstr("saved_model.pbtxt: line 2, column 26")));
}

TEST(SavedModel, KeepsWhatTensorFlowWrote) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  for (const char* name : {"half_plus_two/00000123", "static_hash_table", "vars_and_arithmetic"}) {
    const Path dir = data / "tensorflow" / name;
    const SavedModel model = read_saved_model(dir);
    const std::string bytes = encode_saved_model(model);
    EXPECT_EQ(difference(read_bytes(dir / "saved_model.pb"), bytes), "") << name;
    EXPECT_EQ(decode_saved_model(bytes), model) << name;
    EXPECT_EQ(encode_saved_model(decode_saved_model(bytes)), bytes) << name;
  }
}

TEST(SavedModel, ReadsAModelOfTensorFlow1) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const SavedModel model = read_saved_model(data / "tensorflow/half_plus_two/00000123");
  const MetaGraph& meta = find_meta_graph(model, {"serve"});
  EXPECT_EQ(meta.signatures.size(), 6U);
  const SignatureDef& regress = find_signature(meta, "regress_x_to_y");
  EXPECT_EQ(regress.method_name, kRegressMethod);
  EXPECT_THAT(regress.inputs, ElementsAre(Pair("inputs", TensorInfo{.name = "tf_example:0",
                                                                    .dtype = DataType::kString,
                                                                    .shape = Shape::any()})));
  EXPECT_EQ(asset_files(meta).at(0).filename, "foo.txt");
  EXPECT_EQ(asset_files(meta).at(0).tensor.name, "Const:0");
  EXPECT_EQ(init_op(meta), "group_deps");
  EXPECT_EQ(meta.saver->restore_op, "save/restore_all");
  EXPECT_THAT(meta.object_graph, IsEmpty());
  EXPECT_TRUE(file_exists(asset_path(data / "tensorflow/half_plus_two/00000123", "foo.txt")));
}

TEST(SavedModel, ReadsModelsOfTensorFlow2) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const SavedModel model = read_saved_model(data / "tensorflow/static_hash_table");
  const MetaGraph& meta = find_meta_graph(model, {"serve"});
  EXPECT_THAT(asset_files(meta).at(0).filename, "static_hashtable_asset.txt");
  EXPECT_FALSE(meta.graph.functions.empty());
  EXPECT_FALSE(meta.object_graph.empty());
  EXPECT_FALSE(init_op(meta).empty());
}

TEST(SavedModel, IsPublishedWhole) {
  const TempDir dir;
  const Path target = dir / "export" / "1";
  write_saved_model(target, small_model(), [&](const Path& folder) {
    EXPECT_FALSE(file_exists(target));
    write_bytes(folder / "note", "x");
  });
  EXPECT_EQ(read_saved_model(target), small_model());
  EXPECT_THAT(file_system_for(target).list(dir / "export"), ElementsAre("1"));
  EXPECT_THAT(file_system_for(target).list(target),
              ElementsAre("fingerprint.pb", "note", "saved_model.pb"));
  EXPECT_THROW(write_saved_model(target, small_model()), AlreadyExists);
  EXPECT_EQ(read_saved_model(target), small_model());
}

TEST(SavedModel, LeavesNothingWhenWritingFails) {
  const TempDir dir;
  const auto fail = [](const Path& folder) {
    write_bytes(folder / "half", "x");
    throw ResourceExhausted("the disk is full");
  };
  EXPECT_THAT([&] { write_saved_model(dir / "1", small_model(), fail); },
              ThrowsMessage<ResourceExhausted>(HasSubstr("the disk is full")));
  EXPECT_THAT(file_system_for(dir.path()).list(dir.path()), IsEmpty());
  EXPECT_THROW(write_saved_model(dir / "1", SavedModel{}), DataLoss);
}

TEST(SavedModel, SaysWhatThereIsWhenSomethingIsNot) {
  const SavedModel model = small_model();
  EXPECT_THAT(
      [&] {
        find_meta_graph(model, {"train", "gpu"});
      },
      ThrowsMessage<NotFound>("no graph has the tags 'gpu,train'; the SavedModel has 'serve'"));
  EXPECT_THAT(
      [&] { find_signature(model.meta_graphs[0], "predict"); },
      ThrowsMessage<NotFound>("there is no signature 'predict'; the graph has 'serving_default'"));
  const TempDir dir;
  EXPECT_FALSE(is_saved_model(dir.path()));
  EXPECT_THAT([&] { read_saved_model(dir.path()); },
              ThrowsMessage<NotFound>(HasSubstr("holds neither saved_model.pb nor")));
}

TEST(SavedModel, NamesTheFileOfAnError) {
  const TempDir dir;
  const std::string whole = encode_saved_model(small_model());
  write_bytes(dir / "saved_model.pb", whole.substr(0, whole.size() - 3));
  EXPECT_THAT([&] { read_saved_model(dir.path()); },
              ThrowsMessage<DataLoss>(HasSubstr("reading " + (dir / "saved_model.pb").string())));
  write_bytes(dir / "saved_model.pb", whole);
  EXPECT_THROW(read_saved_model(dir.path(), {.file_bytes = 10}), ResourceExhausted);
  write_bytes(dir / "saved_model.pb", "");
  EXPECT_THAT([&] { read_saved_model(dir.path()); },
              ThrowsMessage<DataLoss>(HasSubstr("schema version 0")));
}

TEST(SavedModel, IsReadFromARegularFileOfItsFolderAlone) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "m");
  ASSERT_EQ(::mkfifo((dir / "m" / "saved_model.pb").c_str(), 0600), 0);
  EXPECT_THAT([&] { read_saved_model(dir / "m"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("not a regular file")));
  std::filesystem::remove(dir / "m" / "saved_model.pb");
  write_bytes(dir / "elsewhere.pb", encode_saved_model(small_model()));
  std::filesystem::create_symlink("../elsewhere.pb", dir / "m" / "saved_model.pb");
  EXPECT_THAT([&] { read_saved_model(dir / "m"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("outside of")));
}

TEST(SavedModel, SaysWhatToDoAboutAChunkedOne) {
  const TempDir dir;
  write_bytes(dir / "saved_model.cpb", "chunks");
  EXPECT_TRUE(is_saved_model(dir.path()));
  EXPECT_THAT([&] { read_saved_model(dir.path()); },
              ThrowsMessage<Unimplemented>(::testing::AllOf(
                  HasSubstr("saved_model.cpb"), HasSubstr("experimental_image_format"))));
}

TEST(SavedModel, RefusesAssetsOutsideOfItsFolder) {
  EXPECT_EQ(asset_path("m", "a/words.txt"), Path("m/assets/a/words.txt"));
  for (const char* bad : {"", "/etc/passwd", "../x", "a/../../x"}) {
    EXPECT_THROW(asset_path("m", bad), InvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace muster::graph
