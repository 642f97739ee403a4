// Writing and reading bundles, against TensorFlow's own files and against damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;

template <typename T>
std::span<const std::byte> bytes_of_values(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <typename T>
std::vector<T> values_of(const TensorData& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

void write_two_tensors(const Path& prefix, int num_shards = 1) {
  const auto kernel = ramp(6);
  const std::vector<std::int64_t> step{400};
  BundleWriter writer(prefix, {.num_shards = num_shards});
  writer.add({.name = "kernel", .shape = {2, 3}, .bytes = bytes_of_values(kernel)});
  writer.add({.name = "global_step", .type = DataType::kInt64, .bytes = bytes_of_values(step)});
  writer.finish();
}

// Copies a bundle tensor by tensor, in the order of its data file.
void rewrite(const BundleReader& reader, const Path& prefix) {
  BundleWriter writer(prefix);
  for (const std::string& name : reader.names_by_place()) {
    const TensorSpec spec = reader.spec(name);
    if (spec.type == DataType::kString) {
      const auto strings = reader.read_strings(name);
      const std::vector<std::string_view> views(strings.begin(), strings.end());
      writer.add({.name = name, .type = spec.type, .shape = spec.shape, .strings = views});
    } else {
      const TensorData tensor = reader.read(name);
      writer.add({.name = name, .type = spec.type, .shape = spec.shape, .bytes = tensor.bytes});
    }
  }
  writer.finish();
}

TEST(Bundle, GivesBackNamesShapesAndValues) {
  const TempDir dir;
  write_two_tensors(dir / "model.ckpt-400");
  const BundleReader reader(dir / "model.ckpt-400");
  EXPECT_THAT(reader.names(), ElementsAre("global_step", "kernel"));
  EXPECT_EQ(reader.spec("kernel"), (TensorSpec{DataType::kFloat, {2, 3}}));
  EXPECT_EQ(values_of<float>(reader.read("kernel")), ramp(6));
  EXPECT_THAT(values_of<std::int64_t>(reader.read("global_step")), ElementsAre(400));
}

TEST(Bundle, RewritesTensorFlowsFilesByteForByte) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  for (const char* name :
       {"embedding_checkpoint/embedding.ckpt", "half_plus_two/00000123/variables/variables",
        "static_hash_table/variables/variables", "vars_and_arithmetic/variables/variables"}) {
    const TempDir dir;
    const Path original = data / "tensorflow" / name;
    rewrite(BundleReader(original), dir / "copy");
    EXPECT_EQ(testing::read_bytes(bundle_index_path(dir / "copy")),
              testing::read_bytes(bundle_index_path(original)))
        << name;
    EXPECT_EQ(testing::read_bytes(bundle_data_path(dir / "copy", 0, 1)),
              testing::read_bytes(bundle_data_path(original, 0, 1)))
        << name;
  }
}

TEST(Bundle, ReadsTheEstimatorsCheckpointWithItsSnappyIndex) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const TempDir dir;
  const Path original = data / "tensorflow/mnist_checkpoint/model.ckpt-46900";
  const BundleReader reader(original);
  reader.verify();
  EXPECT_EQ(reader.names().size(), 27u);
  EXPECT_EQ(reader.spec("conv2d/kernel"), (TensorSpec{DataType::kFloat, {3, 3, 1, 32}}));
  EXPECT_THAT(values_of<std::int64_t>(reader.read("global_step")), ElementsAre(46900));
  rewrite(reader, dir / "copy");
  EXPECT_EQ(testing::read_bytes(bundle_data_path(dir / "copy", 0, 1)),
            testing::read_bytes(bundle_data_path(original, 0, 1)));
}

TEST(Bundle, KeepsStringsOfAnyBytes) {
  const TempDir dir;
  const std::string long_text(300, 'x');
  const std::vector<std::string_view> strings{"", std::string_view("a\0b", 3), long_text};
  BundleWriter writer(dir / "s");
  writer.add({.name = "words", .type = DataType::kString, .shape = {3}, .strings = strings});
  writer.finish();
  const BundleReader reader(dir / "s");
  reader.verify();
  EXPECT_THAT(reader.read_strings("words"), ::testing::ElementsAreArray(strings));
}

TEST(Bundle, SpreadsTensorsOverItsShards) {
  const TempDir dir;
  write_two_tensors(dir / "m", 3);
  EXPECT_EQ(file_system_for(dir.path()).status(dir / "m.data-00000-of-00003")->size_bytes, 24u);
  EXPECT_EQ(file_system_for(dir.path()).status(dir / "m.data-00001-of-00003")->size_bytes, 8u);
  const BundleReader reader(dir / "m");
  reader.verify();
  EXPECT_EQ(values_of<float>(reader.read("kernel")), ramp(6));
}

TEST(Bundle, JoinsThePartsOfAPartitionedVariable) {
  const TempDir dir;
  // A 3x4 matrix cut into a left 3x1 column and two pieces of the rest.
  const std::vector<float> left{1, 5, 9};
  const std::vector<float> top{2, 3, 4};
  const std::vector<float> bottom{6, 7, 8, 10, 11, 12};
  BundleWriter writer(dir / "m");
  const std::vector<std::int64_t> full{3, 4};
  writer.add({.name = "w",
              .shape = {3, 1},
              .bytes = bytes_of_values(left),
              .slice = TensorSlice{full, {0, 0}}});
  writer.add({.name = "w",
              .shape = {1, 3},
              .bytes = bytes_of_values(top),
              .slice = TensorSlice{full, {0, 1}}});
  writer.add({.name = "w",
              .shape = {2, 3},
              .bytes = bytes_of_values(bottom),
              .slice = TensorSlice{full, {1, 1}}});
  writer.finish();
  const BundleReader reader(dir / "m");
  EXPECT_THAT(reader.names(), ElementsAre("w"));
  EXPECT_EQ(reader.spec("w").shape, full);
  EXPECT_EQ(reader.stored_bytes("w"), 48u);
  EXPECT_EQ(values_of<float>(reader.read("w")), ramp(12));
}

TEST(Bundle, RefusesToFinishAPartitionedVariableWithAGap) {
  const TempDir dir;
  const auto half = ramp(4);
  BundleWriter writer(dir / "m");
  writer.add({.name = "w",
              .shape = {2, 2},
              .bytes = bytes_of_values(half),
              .slice = TensorSlice{{4, 2}, {0, 0}}});
  EXPECT_THAT(message_of([&] { writer.finish(); }), HasSubstr("its parts hold 4 of 8 elements"));
}

TEST(Bundle, NamesFileTensorAndOffsetWhenAValueIsDamaged) {
  const TempDir dir;
  write_two_tensors(dir / "m");
  testing::flip_byte(dir / "m.data-00000-of-00001", 25);  // in global_step, after 24 bytes
  const BundleReader reader(dir / "m");
  EXPECT_EQ(values_of<float>(reader.read("kernel")), ramp(6));
  EXPECT_THROW(reader.read("global_step"), DataLoss);
  const std::string message = message_of([&] { reader.verify(); });
  EXPECT_THAT(message, HasSubstr("tensor 'global_step'"));
  EXPECT_THAT(message, HasSubstr("8 bytes at 24"));
  EXPECT_THAT(message, HasSubstr("m.data-00000-of-00001"));
}

TEST(Bundle, ThrowsDataLossWhenTheDataFileIsTorn) {
  const TempDir dir;
  write_two_tensors(dir / "m");
  std::filesystem::resize_file(dir / "m.data-00000-of-00001", 31);
  EXPECT_THROW(BundleReader(dir / "m").verify(), DataLoss);
}

TEST(Bundle, ThrowsNotFoundForAMissingFileOrTensor) {
  const TempDir dir;
  write_two_tensors(dir / "m");
  EXPECT_THROW(BundleReader(dir / "absent"), NotFound);
  EXPECT_THROW(BundleReader(dir / "m").read("bias"), NotFound);
  std::filesystem::remove(dir / "m.data-00000-of-00001");
  EXPECT_THROW(BundleReader(dir / "m").verify(), NotFound);
}

TEST(Bundle, RefusesValuesThatDoNotFitTheirShape) {
  const TempDir dir;
  const auto values = ramp(5);
  BundleWriter writer(dir / "m");
  EXPECT_THROW(writer.add({.name = "w", .shape = {2, 3}, .bytes = bytes_of_values(values)}),
               InvalidArgument);
  EXPECT_THROW(writer.add({.name = "", .shape = {5}, .bytes = bytes_of_values(values)}),
               InvalidArgument);
  writer.add({.name = "w", .shape = {5}, .bytes = bytes_of_values(values)});
  EXPECT_THROW(writer.add({.name = "w", .shape = {5}, .bytes = bytes_of_values(values)}),
               InvalidArgument);
}

TEST(Bundle, LeavesNothingBehindWhenItIsNotFinished) {
  const TempDir dir;
  const auto values = ramp(5);
  { BundleWriter(dir / "m").add({.name = "w", .shape = {5}, .bytes = bytes_of_values(values)}); }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace muster
