#include "muster/data/weights/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/weights/pickle_reader.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

// These files were made with Python's pickle and zipfile in the layout of torch.save: classes and
// persistent ids as PyTorch names them. Storages are of floats 0 to 5 and of the integer 7.

/// OrderedDict of "fc.weight" [2, 3], "fc.t", its transpose, "fc.row", its second row, and "count",
/// with the "_metadata" that state_dict() adds. Protocol 2.
constexpr std::string_view kOrdered =
    "UEsDBBQAAAAAAAAAIQDy52DhowEAAKMBAAAQAAAAYXJjaGl2ZS9kYXRhLnBrbIACY2NvbGxlY3Rpb25zCk9yZGVy"
    "ZWREaWN0CnEAKVJxAShYCQAAAGZjLndlaWdodHECY3RvcmNoLl91dGlscwpfcmVidWlsZF90ZW5zb3JfdjIKcQMo"
    "KFgHAAAAc3RvcmFnZXEEY3RvcmNoCkZsb2F0U3RvcmFnZQpxBVgBAAAAMHEGWAMAAABjcHVxB0sGdHEIUUsASwJL"
    "A4ZxCUsDSwGGcQqJaAApUnELdHEMUnENWAQAAABmYy50cQ5oAygoaARoBWgGaAdLBnRxD1FLAEsDSwKGcRBLAUsD"
    "hnERiWgAKVJxEnRxE1JxFFgGAAAAZmMucm93cRVoAygoaARoBWgGaAdLBnRxFlFLA0sDhXEXSwGFcRiJaAApUnEZ"
    "dHEaUnEbWAUAAABjb3VudHEcaAMoKGgEY3RvcmNoCkxvbmdTdG9yYWdlCnEdWAEAAAAxcR5oB0sBdHEfUUsAKSmJ"
    "aAApUnEgdHEhUnEidX1xI1gJAAAAX21ldGFkYXRhcSRoAClScSVYAAAAAHEmfXEnWAcAAAB2ZXJzaW9ucShLAXNz"
    "c2IuUEsDBBQAAAAAAAAAIQAXkOeRGAAAABgAAAAOAAAAYXJjaGl2ZS9kYXRhLzAAAAAAAACAPwAAAEAAAEBAAACA"
    "QAAAoEBQSwMEFAAAAAAAAAAhAHDW528IAAAACAAAAA4AAABhcmNoaXZlL2RhdGEvMQcAAAAAAAAAUEsDBBQAAAAA"
    "AAAAIQDRnmdVAgAAAAIAAAAPAAAAYXJjaGl2ZS92ZXJzaW9uMwpQSwECFAMUAAAAAAAAACEA8udg4aMBAACjAQAA"
    "EAAAAAAAAAAAAAAAgAEAAAAAYXJjaGl2ZS9kYXRhLnBrbFBLAQIUAxQAAAAAAAAAIQAXkOeRGAAAABgAAAAOAAAA"
    "AAAAAAAAAACAAdEBAABhcmNoaXZlL2RhdGEvMFBLAQIUAxQAAAAAAAAAIQBw1udvCAAAAAgAAAAOAAAAAAAAAAAA"
    "AACAARUCAABhcmNoaXZlL2RhdGEvMVBLAQIUAxQAAAAAAAAAIQDRnmdVAgAAAAIAAAAPAAAAAAAAAAAAAACAAUkC"
    "AABhcmNoaXZlL3ZlcnNpb25QSwUGAAAAAAQABADzAAAAeAIAAAAA";
/// {"epoch", "lr", "args": argparse.Namespace, "optimizer": {...}, "state_dict": {"w": Parameter of
/// every second element}}. Protocol 4.
constexpr std::string_view kNested =
    "UEsDBBQAAAAAAAAAIQBlDxmVeQEAAHkBAAAQAAAAYXJjaGl2ZS9kYXRhLnBrbIAElW4BAAAAAAAAfZQojAVlcG9j"
    "aJRLA4wCbHKURz/gAAAAAAAAjARhcmdzlIwIYXJncGFyc2WUjAlOYW1lc3BhY2WUk5QpgZR9lChoAkc/uZmZmZmZ"
    "mowGbGF5ZXJzlF2UKEsBSwJldWKMCW9wdGltaXplcpR9lIwFc3RhdGWUfZRLAH2UjAdleHBfYXZnlIwMdG9yY2gu"
    "X3V0aWxzlIwSX3JlYnVpbGRfdGVuc29yX3YylJOUKCiMB3N0b3JhZ2WUjAV0b3JjaJSMDEZsb2F0U3RvcmFnZZST"
    "lIwBMJSMA2NwdZRLBnSUUUsASwaFlEsBhZSJjAtjb2xsZWN0aW9uc5SMC09yZGVyZWREaWN0lJOUKVKUdJRSlHNz"
    "c4wKc3RhdGVfZGljdJR9lIwBd5RoEYwSX3JlYnVpbGRfcGFyYW1ldGVylJOUaBMoKGgUaBdoGGgZSwZ0lFFLAUsC"
    "hZRoKYloHylSlHSUUpSIaB8pUpSHlFKUc3UuUEsDBBQAAAAAAAAAIQAXkOeRGAAAABgAAAAOAAAAYXJjaGl2ZS9k"
    "YXRhLzAAAAAAAACAPwAAAEAAAEBAAACAQAAAoEBQSwMEFAAAAAAAAAAhAHDW528IAAAACAAAAA4AAABhcmNoaXZl"
    "L2RhdGEvMQcAAAAAAAAAUEsDBBQAAAAAAAAAIQDRnmdVAgAAAAIAAAAPAAAAYXJjaGl2ZS92ZXJzaW9uMwpQSwEC"
    "FAMUAAAAAAAAACEAZQ8ZlXkBAAB5AQAAEAAAAAAAAAAAAAAAgAEAAAAAYXJjaGl2ZS9kYXRhLnBrbFBLAQIUAxQA"
    "AAAAAAAAIQAXkOeRGAAAABgAAAAOAAAAAAAAAAAAAACAAacBAABhcmNoaXZlL2RhdGEvMFBLAQIUAxQAAAAAAAAA"
    "IQBw1udvCAAAAAgAAAAOAAAAAAAAAAAAAACAAesBAABhcmNoaXZlL2RhdGEvMVBLAQIUAxQAAAAAAAAAIQDRnmdV"
    "AgAAAAIAAAAPAAAAAAAAAAAAAACAAR8CAABhcmNoaXZlL3ZlcnNpb25QSwUGAAAAAAQABADzAAAATgIAAAAA";
/// {"a": two numbers of float8_e4m3fn, as PyTorch 2 saves types that have no storage of their own}.
constexpr std::string_view kFloat8 =
    "UEsDBBQAAAAAAAAAIQD9i7wSxgAAAMYAAAAQAAAAYXJjaGl2ZS9kYXRhLnBrbIACfXEAWAEAAABhcQFjdG9yY2gu"
    "X3V0aWxzCl9yZWJ1aWxkX3RlbnNvcl92MwpxAigoWAcAAABzdG9yYWdlcQNjdG9yY2guc3RvcmFnZQpVbnR5cGVk"
    "U3RvcmFnZQpxBFgBAAAAMHEFWAMAAABjcHVxBksCdHEHUUsASwKFcQhLAYVxCYljY29sbGVjdGlvbnMKT3JkZXJl"
    "ZERpY3QKcQopUnELY3RvcmNoCmZsb2F0OF9lNG0zZm4KcQx9cQ10cQ5ScQ9zLlBLAwQUAAAAAAAAACEAlO+aIAIA"
    "AAACAAAADgAAAGFyY2hpdmUvZGF0YS8wOEBQSwMEFAAAAAAAAAAhANGeZ1UCAAAAAgAAAA8AAABhcmNoaXZlL3Zl"
    "cnNpb24zClBLAQIUAxQAAAAAAAAAIQD9i7wSxgAAAMYAAAAQAAAAAAAAAAAAAACAAQAAAABhcmNoaXZlL2RhdGEu"
    "cGtsUEsBAhQDFAAAAAAAAAAhAJTvmiACAAAAAgAAAA4AAAAAAAAAAAAAAIAB9AAAAGFyY2hpdmUvZGF0YS8wUEsB"
    "AhQDFAAAAAAAAAAhANGeZ1UCAAAAAgAAAA8AAAAAAAAAAAAAAIABIgEAAGFyY2hpdmUvdmVyc2lvblBLBQYAAAAA"
    "AwADALcAAABRAQAAAAA=";
/// {"q": a quantized tensor}.
constexpr std::string_view kQuantized =
    "UEsDBBQAAAAAAAAAIQBib8GxoAAAAKAAAAAQAAAAYXJjaGl2ZS9kYXRhLnBrbIACfXEAWAEAAABxcQFjdG9yY2gu"
    "X3V0aWxzCl9yZWJ1aWxkX3F0ZW5zb3IKcQIoKFgHAAAAc3RvcmFnZXEDY3RvcmNoCkZsb2F0U3RvcmFnZQpxBFgB"
    "AAAAMHEFWAMAAABjcHVxBksGdHEHUUsASwaFcQhLAYVxCYljY29sbGVjdGlvbnMKT3JkZXJlZERpY3QKcQopUnEL"
    "dHEMUnENcy5QSwMEFAAAAAAAAAAhABeQ55EYAAAAGAAAAA4AAABhcmNoaXZlL2RhdGEvMAAAAAAAAIA/AAAAQAAA"
    "QEAAAIBAAACgQFBLAwQUAAAAAAAAACEAcNbnbwgAAAAIAAAADgAAAGFyY2hpdmUvZGF0YS8xBwAAAAAAAABQSwME"
    "FAAAAAAAAAAhANGeZ1UCAAAAAgAAAA8AAABhcmNoaXZlL3ZlcnNpb24zClBLAQIUAxQAAAAAAAAAIQBib8GxoAAA"
    "AKAAAAAQAAAAAAAAAAAAAACAAQAAAABhcmNoaXZlL2RhdGEucGtsUEsBAhQDFAAAAAAAAAAhABeQ55EYAAAAGAAA"
    "AA4AAAAAAAAAAAAAAIABzgAAAGFyY2hpdmUvZGF0YS8wUEsBAhQDFAAAAAAAAAAhAHDW528IAAAACAAAAA4AAAAA"
    "AAAAAAAAAIABEgEAAGFyY2hpdmUvZGF0YS8xUEsBAhQDFAAAAAAAAAAhANGeZ1UCAAAAAgAAAA8AAAAAAAAAAAAA"
    "AIABRgEAAGFyY2hpdmUvdmVyc2lvblBLBQYAAAAABAAEAPMAAAB1AQAAAAA=";

Weights parse_archive(std::string_view bytes, const OpenWeightsOptions& options = {}) {
  const TempDir dir;
  testing::write_bytes(dir / "m.pt", bytes);
  return open_weights(dir / "m.pt", options);
}

std::string decoded(std::string_view base64) { return base64_decode(base64); }

std::vector<float> floats_of(const Weight& weight) {
  const WeightBytes bytes = row_major_bytes(weight);
  std::vector<float> values(bytes.bytes.size() / 4);
  std::memcpy(values.data(), bytes.bytes.data(), bytes.bytes.size());
  return values;
}

/// The file with one piece of equal length instead of another.
std::string with(std::string bytes, std::string_view old, std::string_view other) {
  const std::size_t at = bytes.find(old);
  EXPECT_NE(at, bytes.npos);
  return bytes.replace(at, old.size(), other);
}

TEST(TorchFile, ReadsStridedTensorsThatShareAStorage) {
  const Weights weights = parse_archive(decoded(kOrdered));
  EXPECT_EQ(weights.format, WeightFormat::kTorch);
  EXPECT_THAT(weights.names(), ElementsAre("fc.weight", "fc.t", "fc.row", "count"));
  EXPECT_THAT(weights.others, ElementsAre());
  EXPECT_THAT(floats_of(*weights.find("fc.weight")), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(floats_of(*weights.find("fc.t")), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(floats_of(*weights.find("fc.row")), ElementsAre(3, 4, 5));
  EXPECT_EQ(weights.find("fc.t")->storage, weights.find("fc.weight")->storage);
  EXPECT_EQ(weights.find("count")->spec, (TensorSpec{DataType::kInt64, {}}));
  EXPECT_EQ(row_major_bytes(*weights.find("count")).bytes[0], std::byte{7});
}

TEST(TorchFile, ReadsTheStateDictOfACheckpoint) {
  const Weights weights = parse_archive(decoded(kNested));
  EXPECT_THAT(weights.names(), ElementsAre("w"));
  EXPECT_THAT(floats_of(weights.tensors[0]), ElementsAre(1, 3));
  EXPECT_THAT(weights.others, ElementsAre("epoch", "lr", "args", "optimizer"));
}

TEST(TorchFile, ReadsTheDictionaryThatIsAskedFor) {
  EXPECT_THAT(parse_archive(decoded(kNested), {.key = "optimizer/state"}).names(),
              ElementsAre("0.exp_avg"));
  EXPECT_THAT(message_of([] { parse_archive(decoded(kNested), {.key = "ema"}); }),
              HasSubstr("it has no key 'ema'; there are: epoch, lr, args, optimizer, state_dict"));
}

TEST(TorchFile, TakesAnyClassWithItemsForADictionary) {
  const std::string bytes =
      with(decoded(kOrdered), "collections\nOrderedDict", "my_code\nFrozenOrderDict");
  EXPECT_THAT(parse_archive(bytes).names(), ElementsAre("fc.weight", "fc.t", "fc.row", "count"));
}

TEST(TorchFile, ReadsTypesWithoutAStorageOfTheirOwn) {
  const Weights weights = parse_archive(decoded(kFloat8));
  EXPECT_EQ(weights.tensors[0].spec, (TensorSpec{DataType::kFloat8E4m3fn, {2}}));
}

TEST(TorchFile, RefusesTensorsThatItCannotRead) {
  EXPECT_THAT(message_of([] { parse_archive(decoded(kQuantized)); }),
              AllOf(HasSubstr("torch._utils._rebuild_qtensor"), HasSubstr("tensor.dequantize()")));
  EXPECT_THAT(message_of([] {
                parse_archive("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");
              }),
              HasSubstr("PyTorch before 1.6"));
}

TEST(TorchFile, RefusesDamageWithThePlace) {
  const std::string bytes = decoded(kOrdered);
  EXPECT_THAT(message_of([&] { parse_archive(bytes.substr(0, 100)); }), HasSubstr("cut short"));
  // The numbers in the storage.
  EXPECT_THAT(
      message_of([&] {
        for (const Weight& weight :
             parse_archive(with(bytes, std::string_view("\0\0\x80\x3F", 4), "abcd")).tensors) {
          row_major_bytes(weight);
        }
      }),
      AllOf(HasSubstr("archive/data/0 at offset"), HasSubstr("the checksum of 24 bytes")));
  EXPECT_THAT(message_of([&] { parse_archive(with(bytes, "FloatStorage", "FlxatStorage")); }),
              HasSubstr("a storage of torch.FlxatStorage"));
  std::string renamed = bytes;
  renamed.replace(renamed.rfind("archive/data/0"), 14, "archive/data/x");
  EXPECT_THAT(message_of([&] { parse_archive(renamed); }),
              HasSubstr("tensor 'fc.weight': the archive has no archive/data/0"));
  EXPECT_THAT(message_of([&] { parse_archive(with(bytes, "K\x02K\x03\x86", "K\x09K\x03\x86")); }),
              HasSubstr("tensor 'fc.weight', float32 [9, 3] with strides [3, 1], does not lie in"));
}

TEST(TorchFile, DoesNotLookAtChecksumsWhereItIsToldNotTo) {
  const std::string bytes =
      with(decoded(kOrdered), std::string_view("\0\0\x80\x3F", 4), std::string(4, '\0'));
  const Weights weights = parse_archive(bytes, {.verify_checksums = false});
  EXPECT_THAT(floats_of(*weights.find("fc.weight")), ElementsAre(0, 0, 2, 3, 4, 5));
}

TEST(TorchFile, BoundsWhatAPickleMayTake) {
  // A list that has itself ten times, in a list that has that ten times, and so on.
  std::string pickle = "\x80\x02]q";
  pickle += '\0';
  for (char depth = 0; depth < 30; ++depth) {
    pickle += "](";
    for (int i = 0; i < 10; ++i) (pickle += 'h') += depth;
    ((pickle += "eq") += static_cast<char>(depth + 1));
  }
  // The values below the last one were left on the stack: a tuple of all.
  pickle = pickle.substr(0, 2) + "(" + pickle.substr(2) + "t.";
  EXPECT_THROW(read_pickled_tensors(pickle, 0, "m.pt", 1 << 20), ResourceExhausted);
}

TEST(TorchFile, WritesWhatItReads) {
  const TempDir dir;
  const Weights weights = parse_archive(decoded(kOrdered));
  write_weights(dir / "copy.pth", weights.tensors, {.format = WeightFormat::kTorch});
  const Weights copy = open_weights(dir / "copy.pth");
  EXPECT_EQ(copy.names(), weights.names());
  for (const Weight& weight : weights.tensors) {
    const Weight& other = *copy.find(weight.name);
    EXPECT_EQ(other.spec, weight.spec);
    EXPECT_EQ(other.strides, weight.strides);
    const auto left = row_major_bytes(weight).bytes;
    const auto right = row_major_bytes(other).bytes;
    EXPECT_TRUE(std::equal(left.begin(), left.end(), right.begin(), right.end())) << weight.name;
  }
  EXPECT_EQ(copy.find("fc.t")->storage, copy.find("fc.weight")->storage);
  EXPECT_NE(copy.find("count")->storage, copy.find("fc.weight")->storage);
}

TEST(TorchFile, ReadsTheFilesThatAnIndexNames) {
  const TempDir dir;
  testing::write_bytes(dir / "pytorch_model-00001-of-00001.bin", decoded(kOrdered));
  testing::write_bytes(dir / "pytorch_model.bin.index.json",
                       R"({"weight_map":{"count":"pytorch_model-00001-of-00001.bin"}})");
  const Weights weights = open_weights(dir.path());
  EXPECT_EQ(weights.format, WeightFormat::kTorch);
  EXPECT_THAT(weights.names(), ElementsAre("count"));
}

}  // namespace
}  // namespace muster
