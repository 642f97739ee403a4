#include "muster/data/weights/npz_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/records/npz.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

// Made with Python's zipfile in the layout of numpy.savez, ZIP64 fields included: "fc.weight", the
// floats 0 to 5 as [2, 3], "fc.t", the same in Fortran order, "count", the integer 7, and "names",
// an array of a string.
constexpr std::string_view kStoredArrays =
    "UEsDBC0AAAAAAAAAIQBP6QAq//////////8NABQAZmMud2VpZ2h0Lm5weQEAEACYAAAAAAAAAJgAAAAAAAAAk05V"
    "TVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAACA"
    "PwAAAEAAAEBAAACAQAAAoEBQSwMELQAAAAAAAAAhAKMbyB3//////////wgAFABmYy50Lm5weQEAEACYAAAAAAAA"
    "AJgAAAAAAAAAk05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUn"
    "OiAoMiwgMyksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgIAoAAAAAAACAPwAAAEAAAEBAAACAQAAAoEBQSwMELQAAAAAAAAAhACO48Gz//////////wkAFABjb3VudC5u"
    "cHkBABAAiAAAAAAAAACIAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJzxpOCcsICdmb3J0cmFuX29yZGVyJzog"
    "RmFsc2UsICdzaGFwZSc6ICgpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAKBwAAAAAAAABQSwMELQAAAAAAAAAhABcY+zL//////////wkAFABuYW1lcy5ucHkB"
    "ABAAiAAAAAAAAACIAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJzxVMicsICdmb3J0cmFuX29yZGVyJzogRmFs"
    "c2UsICdzaGFwZSc6ICgxLCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAKYQAAAGIAAABQSwECLQMtAAAAAAAAACEAT+kAKpgAAACYAAAADQAAAAAAAAAAAAAAgAEA"
    "AAAAZmMud2VpZ2h0Lm5weVBLAQItAy0AAAAAAAAAIQCjG8gdmAAAAJgAAAAIAAAAAAAAAAAAAACAAdcAAABmYy50"
    "Lm5weVBLAQItAy0AAAAAAAAAIQAjuPBsiAAAAIgAAAAJAAAAAAAAAAAAAACAAakBAABjb3VudC5ucHlQSwECLQMt"
    "AAAAAAAAACEAFxj7MogAAACIAAAACQAAAAAAAAAAAAAAgAFsAgAAbmFtZXMubnB5UEsFBgAAAAAEAAQA3wAAAC8D"
    "AAAAAA==";
/// The same as numpy.savez_compressed has it.
constexpr std::string_view kCompressedArrays =
    "UEsDBC0AAAAIAAAAIQBP6QAq//////////8NABQAZmMud2VpZ2h0Lm5weQEAEACYAAAAAAAAAFUAAAAAAAAAm+wX"
    "6hsQychQxlCtnpJanFykbqWgbpNmoq6joJ6WX1RSlJgXn1+UkgoSd0vMKU4FihdnJBakAvkaRjoKxpo6CrUKZAMu"
    "BjBosAcSDkAExA1AvMABAFBLAwQtAAAACAAAACEAoxvIHf//////////CAAUAGZjLnQubnB5AQAQAJgAAAAAAAAA"
    "VAAAAAAAAACb7BfqGxDJyFDGUK2eklqcXKRupaBuk2airqOgnpZfVFKUmBefX5SSChIPKSpNBQoXZyQWpAK5GkY6"
    "CsaaOgq1CuQDLgYwaLAHEg5ABMQNQLzAAQBQSwMELQAAAAgAAAAhACO48Gz//////////wkAFABjb3VudC5ucHkB"
    "ABAAiAAAAAAAAABGAAAAAAAAAJvsF+obEMnIUMZQrZ6SWpxcpG6loG6TaaGuo6Cell9UUpSYF59flJIKEndLzClO"
    "BYoXZyQWpAL5Gpo6CrUKFAEudgYIAABQSwMELQAAAAgAAAAhABcY+zL//////////wkAFABuYW1lcy5ucHkBABAA"
    "iAAAAAAAAABLAAAAAAAAAJvsF+obEMnIUMZQrZ6SWpxcpG6loG4TaqSuo6Cell9UUpSYF59flJIKEndLzClOBYoX"
    "ZyQWpAL5GoY6mjoKtQoUAK5EBgaGJCAGAFBLAQItAy0AAAAIAAAAIQBP6QAqVQAAAJgAAAANAAAAAAAAAAAAAACA"
    "AQAAAABmYy53ZWlnaHQubnB5UEsBAi0DLQAAAAgAAAAhAKMbyB1UAAAAmAAAAAgAAAAAAAAAAAAAAIABlAAAAGZj"
    "LnQubnB5UEsBAi0DLQAAAAgAAAAhACO48GxGAAAAiAAAAAkAAAAAAAAAAAAAAIABIgEAAGNvdW50Lm5weVBLAQIt"
    "Ay0AAAAIAAAAIQAXGPsySwAAAIgAAAAJAAAAAAAAAAAAAACAAaMBAABuYW1lcy5ucHlQSwUGAAAAAAQABADfAAAA"
    "KQIAAAAA";

Weights parse_arrays(std::string_view bytes) {
  const TempDir dir;
  testing::write_bytes(dir / "m.npz", bytes);
  return open_weights(dir / "m.npz");
}

std::vector<float> numbers_in(const Weight& weight) {
  const WeightBytes bytes = row_major_bytes(weight);
  std::vector<float> values(bytes.bytes.size() / 4);
  std::memcpy(values.data(), bytes.bytes.data(), bytes.bytes.size());
  return values;
}

TEST(NpzWeights, ReadsStoredAndCompressedArrays) {
  for (const std::string_view file : {kStoredArrays, kCompressedArrays}) {
    const Weights weights = parse_arrays(base64_decode(file));
    EXPECT_EQ(weights.format, WeightFormat::kNpz);
    EXPECT_THAT(weights.names(), ElementsAre("fc.weight", "fc.t", "count"));
    EXPECT_THAT(weights.others, ElementsAre("names.npy"));
    EXPECT_THAT(numbers_in(*weights.find("fc.weight")), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(numbers_in(*weights.find("fc.t")), ElementsAre(0, 2, 4, 1, 3, 5));
    EXPECT_EQ(weights.find("count")->spec, (TensorSpec{DataType::kInt64, {}}));
  }
}

TEST(NpzWeights, RefusesDamageWithThePlace) {
  std::string bytes = base64_decode(kStoredArrays);
  const std::size_t number = bytes.find(std::string_view("\0\0\x80\x3F", 4));
  std::string flipped = bytes;
  flipped[number] = 'x';
  EXPECT_THAT(message_of([&] { row_major_bytes(parse_arrays(flipped).tensors[0]); }),
              AllOf(HasSubstr("m.npz[fc.weight.npy]"), HasSubstr("the checksum of 152 bytes")));
  std::string larger = bytes;
  larger.replace(bytes.find("(2, 3)"), 6, "(9, 3)");
  EXPECT_THAT(
      message_of([&] { parse_arrays(larger); }),
      HasSubstr("m.npz[fc.weight.npy]: 152 bytes, but its header of 128 bytes says that 108"));
  EXPECT_THAT(message_of([&] { parse_arrays(bytes.substr(0, bytes.size() - 9)); }),
              HasSubstr("damaged archive at offset"));
}

TEST(NpzWeights, WritesWhatItReads) {
  const TempDir dir;
  const Weights weights = parse_arrays(base64_decode(kCompressedArrays));
  write_weights(dir / "copy.npz", weights.tensors, {.format = WeightFormat::kNpz});
  EXPECT_THAT(numbers_in(*open_weights(dir / "copy.npz").find("fc.t")),
              ElementsAre(0, 2, 4, 1, 3, 5));
  // The reader of records takes it too.
  EXPECT_THAT(read_npz(dir / "copy.npz", "fc.weight").shape, ElementsAre(2, 3));
}

TEST(NpzWeights, AnEmptyFileIsReadBack) {
  const TempDir dir;
  write_weights(dir / "empty.npz", {}, {.format = WeightFormat::kNpz});
  const Weights weights = open_weights(dir / "empty.npz");
  EXPECT_EQ(weights.format, WeightFormat::kNpz);
  EXPECT_TRUE(weights.tensors.empty());
}

TEST(NpzWeights, RefusesNamesThatNoArchiveHasRoomFor) {
  const TempDir dir;
  std::vector<Weight> tensors = parse_arrays(base64_decode(kStoredArrays)).tensors;
  const std::size_t most = 65'535 - std::string_view(".npy").size();
  tensors[0].name.assign(most, 'n');
  write_weights(dir / "long.npz", tensors, {.format = WeightFormat::kNpz});
  EXPECT_EQ(open_weights(dir / "long.npz").tensors[0].name.size(), most);
  tensors[0].name += 'n';
  const auto write = [&] {
    write_weights(dir / "longer.npz", tensors, {.format = WeightFormat::kNpz});
  };
  EXPECT_THROW(write(), InvalidArgument);
  EXPECT_THAT(message_of(write), HasSubstr("a name of 65536 bytes"));
  EXPECT_FALSE(file_exists(dir / "longer.npz"));
}

}  // namespace
}  // namespace muster
