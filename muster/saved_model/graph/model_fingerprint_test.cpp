#include "muster/saved_model/graph/model_fingerprint.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include "muster/base/fingerprint.h"
#include "muster/saved_model.pb.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"

namespace muster::graph {
namespace {

using testing::read_bytes;
using testing::TempDir;
using testing::write_bytes;

SavedModel model_of(std::vector<NodeDef> nodes) {
  MetaGraph meta{.tags = {"serve"},
                 .graph = {.nodes = std::move(nodes), .versions = {.producer = 134}}};
  const TensorInfo x{.name = "x:0", .dtype = DataType::kFloat, .shape = {-1, 2}};
  meta.signatures["predict"] = {.inputs = {{"x", x}}, .outputs = {{"y", x}}};
  meta.signatures["serving_default"] = {.inputs = {{"x", x}}, .outputs = {{"y", x}}};
  return {.meta_graphs = {meta}};
}

NodeDef word(std::string name, std::string text) {
  return constant_node(std::move(name), TensorValue::string_scalar(std::move(text)));
}

ModelFingerprint of(const SavedModel& model, const Path& dir = {}) {
  return fingerprint_of(model, encode_saved_model(model), dir);
}

// protobuf's own bytes of what it reads in these, which TensorFlow hashes.
std::string as_protobuf_writes(const std::string& bytes) {
  proto::SavedModel message;
  EXPECT_TRUE(message.ParseFromString(bytes));
  std::string out;
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  EXPECT_TRUE(message.SerializeToCodedStream(&coded));
  coded.Trim();
  return out;
}

// The numbers are those that TensorFlow's own tests expect of this model. Its fingerprint.pb is of
// another save and of older rules.
TEST(ModelFingerprint, IsTensorFlows) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Path dir = data / "tensorflow" / "vars_and_arithmetic";
  const ModelFingerprint found = of(read_saved_model(dir), dir);
  EXPECT_EQ(found.graph_def_program_hash, 10127142238652115842U);
  EXPECT_EQ(found.signature_def_hash, 15570736222402453744U);
  EXPECT_EQ(found.saved_object_graph_hash, 3678101440349108924U);
  EXPECT_EQ(found.checkpoint_hash, fingerprint64(read_bytes(dir / "variables/variables.index")));
}

TEST(ModelFingerprint, OfTheFileIsThatOfWhatProtobufWrites) {
  const std::string bytes = encode_saved_model(
      model_of({constant_node("c", TensorValue::vector(std::vector<float>{1, 2, 3})),
                word("w", "a"), placeholder_node("x", DataType::kFloat, {-1, 2})}));
  EXPECT_EQ(bytes, as_protobuf_writes(bytes));
}

TEST(ModelFingerprint, TellsModelsApartByWhatDiffers) {
  const NodeDef x = placeholder_node("x", DataType::kFloat, {-1, 2});
  const ModelFingerprint first = of(model_of({x, word("w", "/home/a/words")}));
  // A constant text is not part of the program.
  const ModelFingerprint moved = of(model_of({x, word("w", "/srv/words")}));
  EXPECT_NE(moved.saved_model_checksum, first.saved_model_checksum);
  EXPECT_EQ(moved.graph_def_program_hash, first.graph_def_program_hash);
  EXPECT_EQ(moved.signature_def_hash, first.signature_def_hash);

  const ModelFingerprint renamed = of(model_of({x, word("v", "/home/a/words")}));
  EXPECT_NE(renamed.graph_def_program_hash, first.graph_def_program_hash);
  EXPECT_EQ(renamed.signature_def_hash, first.signature_def_hash);

  SavedModel signed_otherwise = model_of({x, word("w", "/home/a/words")});
  auto& signatures = signed_otherwise.meta_graphs.at(0).signatures;
  auto moved_signature = signatures.extract("predict");
  moved_signature.key() = "regress";
  signatures.insert(std::move(moved_signature));
  EXPECT_EQ(of(signed_otherwise).graph_def_program_hash, first.graph_def_program_hash);
  EXPECT_NE(of(signed_otherwise).signature_def_hash, first.signature_def_hash);
}

TEST(ModelFingerprint, StandsBesideTheModel) {
  const TempDir dir;
  const SavedModel model = model_of({placeholder_node("x", DataType::kFloat, {-1, 2})});
  write_saved_model(dir / "1", model, [](const Path& folder) {
    file_system_for(folder).create_directories(folder / "variables");
    write_bytes(folder / "variables" / "variables.index", "index");
  });
  proto::FingerprintDef written;
  ASSERT_TRUE(written.ParseFromString(read_bytes(dir / "1" / "fingerprint.pb")));
  EXPECT_EQ(written.saved_model_checksum(),
            fingerprint64(read_bytes(dir / "1" / "saved_model.pb")));
  EXPECT_EQ(written.checkpoint_hash(), fingerprint64("index"));
  EXPECT_EQ(written.version().producer(), 1);
  const ModelFingerprint again = of(read_saved_model(dir / "1"), dir / "1");
  EXPECT_EQ(written.graph_def_program_hash(), again.graph_def_program_hash);
  EXPECT_EQ(written.signature_def_hash(), again.signature_def_hash);
  EXPECT_EQ(written.saved_object_graph_hash(), 0U);
  EXPECT_EQ(encode_fingerprint(again), read_bytes(dir / "1" / "fingerprint.pb"));

  write_saved_model(dir / "text", model, {}, /*as_text=*/true);
  EXPECT_FALSE(file_exists(dir / "text" / "fingerprint.pb"));
}

}  // namespace
}  // namespace muster::graph
