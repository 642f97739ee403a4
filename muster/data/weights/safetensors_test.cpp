#include "muster/data/weights/safetensors.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Pair;
using testing::TempDir;

/// The file as its description has it, written by hand: the reader is not tested against the
/// writer.
std::string file_of(std::string_view header, std::string_view data) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size() & 0xFF);
  bytes[1] = static_cast<char>(header.size() >> 8);
  return bytes.append(header).append(data);
}

constexpr std::string_view kTwoTensors =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I16","shape":[2],"data_offsets":[8,12]},)"
    R"( "a.\u00e9":{"shape":[1,2],"dtype":"F32","data_offsets":[0,8]} }  )";
const std::string kTwoTensorsData("\0\0\x80\x3F\0\0\0\x40\x01\0\xFE\xFF", 12);

Weights parse(const std::string& bytes) {
  const TempDir dir;
  testing::write_bytes(dir / "m.safetensors", bytes);
  return open_weights(dir / "m.safetensors");
}

std::string refused(std::string_view header, std::string_view data) {
  return message_of([&] { parse(file_of(header, data)); });
}

TEST(Safetensors, ReadsNamesTypesShapesAndValues) {
  const Weights weights = parse(file_of(kTwoTensors, kTwoTensorsData));
  EXPECT_EQ(weights.format, WeightFormat::kSafetensors);
  EXPECT_THAT(weights.metadata, ElementsAre(Pair("format", "pt")));
  EXPECT_THAT(weights.names(), ElementsAre("b", "a.\xC3\xA9"));
  const Weight& a = *weights.find("a.\xC3\xA9");
  EXPECT_EQ(a.spec, (TensorSpec{DataType::kFloat, {1, 2}}));
  const WeightBytes bytes = row_major_bytes(a);
  float values[2];
  std::memcpy(values, bytes.bytes.data(), sizeof(values));
  EXPECT_THAT(values, ElementsAre(1.0F, 2.0F));
  EXPECT_EQ(weights.find("b")->spec, (TensorSpec{DataType::kInt16, {2}}));
  EXPECT_EQ(weights.find("c"), nullptr);
}

TEST(Safetensors, RefusesDamageWithThePlace) {
  EXPECT_THAT(message_of([] { parse("123"); }), HasSubstr("not a safetensors file"));
  EXPECT_THAT(message_of([] { parse(std::string("\xFF\0\0\0\0\0\0\0{}", 10)); }),
              HasSubstr("at offset 0: a safetensors header of 255 bytes, but 2 follow"));
  EXPECT_THAT(refused(R"({"a":{"dtype":"F32"}})", ""),
              AllOf(HasSubstr("at offset 28"), HasSubstr("tensor 'a'"), HasSubstr("is missing")));
  EXPECT_THAT(refused(R"({"a":{"dtype":"F12","shape":[],"data_offsets":[0,0]}})", ""),
              HasSubstr("tensor 'a' has the dtype F12"));
  EXPECT_THAT(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", "1234"),
              HasSubstr("data_offsets [0, 8] where 4 bytes follow the header"));
  EXPECT_THAT(refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
              HasSubstr("float32 [2] in the 4 bytes of data_offsets [0, 4]"));
  EXPECT_THAT(refused(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "12345"),
              HasSubstr("end at offset 65, but it has 66 bytes"));
  EXPECT_THAT(
      refused(R"({"a":{"dtype":"U8","shape":[9223372036854775807,4],"data_offsets":[0,4]}})",
              "1234"),
      HasSubstr("in the 4 bytes"));
  EXPECT_THAT(refused(R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", "1234"),
              HasSubstr("a number from 0 to 2^63 - 1 was expected"));
  EXPECT_THAT(refused(R"({} x)", ""), HasSubstr("text after the end"));
  EXPECT_THAT(refused("{\"a", ""), HasSubstr("a string that does not end"));
}

TEST(Safetensors, RefusesTensorsThatOverlapOrComeTwice) {
  constexpr const char* kBoth = R"({{"a":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}},)"
                                R"("{}":{{"dtype":"U8","shape":[2],"data_offsets":[{},{}]}}}})";
  EXPECT_THAT(refused(fmt::format(kBoth, "b", 1, 3), "123"),
              HasSubstr("tensor 'b' begins at offset"));
  EXPECT_THAT(refused(fmt::format(kBoth, "a", 2, 4), "1234"), HasSubstr("tensor 'a' comes twice"));
  EXPECT_EQ(parse(file_of(fmt::format(kBoth, "b", 2, 4), "1234")).tensors.size(), 2);
}

TEST(Safetensors, BoundsTheHeader) {
  const TempDir dir;
  testing::write_bytes(dir / "m.safetensors", file_of(kTwoTensors, kTwoTensorsData));
  EXPECT_THROW(open_weights(dir / "m.safetensors", {.limits = {.header_bytes = 100}}),
               ResourceExhausted);
}

TEST(Safetensors, WritesWhatItReads) {
  const TempDir dir;
  const Weights weights = parse(file_of(kTwoTensors, kTwoTensorsData));
  write_weights(dir / "copy.safetensors", weights.tensors,
                {.format = WeightFormat::kSafetensors, .metadata = weights.metadata});
  const std::string bytes = testing::read_bytes(dir / "copy.safetensors");
  // Elements begin at a multiple of 8, the wider ones first.
  EXPECT_EQ(bytes.size() % 8, 4);
  EXPECT_EQ(bytes.substr(bytes.size() - 12), kTwoTensorsData);
  EXPECT_THAT(bytes, HasSubstr(R"("b":{"dtype":"I16","shape":[2],"data_offsets":[8,12]})"));
  const Weights copy = open_weights(dir / "copy.safetensors");
  EXPECT_EQ(copy.metadata, weights.metadata);
  EXPECT_EQ(copy.find("b")->spec, weights.find("b")->spec);
}

TEST(Safetensors, WritesNoTypeThatTheFormatDoesNotHave) {
  const TempDir dir;
  Weight weight{.name = "z", .spec = {DataType::kComplex128, {}}, .strides = {}};
  const std::vector<std::byte> zero(16);
  weight.storage = storage_of(WeightBytes{zero, nullptr});
  EXPECT_THAT(message_of([&] {
                write_weights(dir / "z.safetensors", {weight},
                              {.format = WeightFormat::kSafetensors});
              }),
              HasSubstr("no type for tensor 'z', complex128 []"));
  EXPECT_FALSE(std::filesystem::exists(dir / "z.safetensors"));
}

TEST(ShardedSafetensors, ReadsTheFilesThatTheIndexNames) {
  const TempDir dir;
  testing::write_bytes(dir / "one", file_of(kTwoTensors, kTwoTensorsData));
  testing::write_bytes(dir / "two",
                       file_of(R"({"c":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "\x07"));
  testing::write_bytes(dir / "model.safetensors.index.json",
                       R"({"metadata":{"total_size":13},"weight_map":{"b":"one","c":"two"}})");
  const Weights weights = open_weights(dir.path());
  EXPECT_THAT(weights.names(), ElementsAre("b", "c"));
  EXPECT_EQ(row_major_bytes(*weights.find("c")).bytes[0], std::byte{7});
}

TEST(ShardedSafetensors, RefusesFilesElsewhereAndTensorsThatAreNotThere) {
  const TempDir dir;
  testing::write_bytes(dir / "one", file_of(kTwoTensors, kTwoTensorsData));
  const Path index = dir / "x.safetensors.index.json";
  const auto refused_index = [&](std::string_view text) {
    testing::write_bytes(index, text);
    return message_of([&] { open_weights(index); });
  };
  EXPECT_THAT(refused_index(R"({"weight_map":{"b":"../one"}})"),
              HasSubstr("'../one' is no name of a file beside the index"));
  EXPECT_THAT(refused_index(R"({"weight_map":{"z":"one"}})"), HasSubstr("tensor 'z' is not in"));
  EXPECT_THAT(refused_index(R"({"weight_map":{"z":"none"}})"), HasSubstr("none"));
  EXPECT_THAT(refused_index(R"({"weights":{}})"), HasSubstr("has no weight_map"));
  for (const char* other : {"x.safetensors.index.json", "y.safetensors.index.json"}) {
    testing::write_bytes(dir / "y.safetensors.index.json",
                         R"({"weight_map":{"a":"x.safetensors.index.json"}})");
    EXPECT_THAT(refused_index(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", other)),
                HasSubstr(fmt::format("'{}' is an index, and no file of weights", other)));
  }
}

}  // namespace
}  // namespace muster
