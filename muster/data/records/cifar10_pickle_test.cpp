#include "muster/data/records/cifar10_pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Escapes with NUL bytes in them, as a string.
template <std::size_t N>
std::string raw(const char (&literal)[N]) {
  return {literal, N - 1};
}

/// A 4-byte length.
std::string length4(std::size_t value) {
  std::string out;
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

std::string pixels(std::size_t pictures) {
  std::string out;
  for (std::size_t i = 0; i < pictures * kCifar10ImageBytes; ++i)
    out.push_back(static_cast<char>(i * 7));
  return out;
}

/// The array as Python 2 with old numpy wrote it.
std::string python2_array(std::size_t pictures, const std::string& data) {
  return raw("cnumpy.core.multiarray\n_reconstruct\nq\x07"
             "cnumpy\nndarray\nq\x08K\x00\x85U\x01"
             "b\x87Rq\x09(K\x01K") +
         static_cast<char>(pictures) +
         raw("M\x00\x0C\x86"
             "cnumpy\ndtype\nq\x0AU\x02u1K\x00K\x01\x87Rq\x0B(K\x03U\x01|"
             "NNNJ\xFF\xFF\xFF\xFFJ\xFF\xFF\xFF\xFFK\x00tb\x89T") +
         length4(data.size()) + data + "tb";
}

const std::string kHead =
    raw("\x80\x02}q\x01(U\x0B"
        "batch_labelq\x02U\x07"
        "a batchq\x03U\x06labelsq\x04]q\x05(K\x06K\x09"
        "eU\x04"
        "dataq\x06");
const std::string kTail =
    raw("U\x09"
        "filenamesq\x0C]q\x0D(U\x05"
        "a.pngU\x05"
        "b.pngeu.");

std::string python2_pickle() { return kHead + python2_array(2, pixels(2)) + kTail; }

std::string pickle_message(const std::string& bytes) {
  try {
    parse_cifar10_pickle(bytes, "batch");
  } catch (const DataLoss& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_two_pictures(const Cifar10Pickle& read) {
  EXPECT_EQ(read.batch.labels, (std::vector<std::uint8_t>{6, 9}));
  EXPECT_EQ(read.batch.pixels, pixels(2));
}

TEST(Cifar10Pickle, ReadsWhatPython2Wrote) {
  const auto read = parse_cifar10_pickle(python2_pickle(), "batch");
  expect_two_pictures(read);
  EXPECT_EQ(read.batch_label, "a batch");
  EXPECT_THAT(read.filenames, ElementsAre("a.png", "b.png"));
}

TEST(Cifar10Pickle, ReadsWhatPython3WritesInProtocol2) {
  std::string utf8;
  for (const char pixel : pixels(2)) {
    const auto byte = static_cast<std::uint8_t>(pixel);
    if (byte >= 0x80) utf8.push_back(static_cast<char>(0xC0 | byte >> 6));
    utf8.push_back(static_cast<char>(byte < 0x80 ? byte : 0x80 | (byte & 0x3F)));
  }
  const std::string bytes =
      raw("\x80\x02}q\x00(X\x04\x00\x00\x00"
          "dataq\x01"
          "cnumpy.core.multiarray\n_reconstruct\nq\x02"
          "cnumpy\nndarray\nq\x03K\x00\x85q\x04"
          "c_codecs\nencode\nq\x05X\x01\x00\x00\x00"
          "bq\x06X\x06\x00\x00\x00latin1q\x07\x86q\x08Rq\x09\x87q\x0ARq\x0B"
          "(K\x01K\x02M\x00\x0C\x86q\x0C"
          "cnumpy\ndtype\nq\x0DX\x02\x00\x00\x00u1q\x0E\x89\x88\x87q\x0FRq\x10"
          "(K\x03X\x01\x00\x00\x00|q\x11NNNJ\xFF\xFF\xFF\xFFJ\xFF\xFF\xFF\xFFK\x00tq\x12"
          "b\x89h\x05X") +
      length4(utf8.size()) + utf8 +
      raw("q\x13h\x07\x86q\x14Rq\x15tq\x16"
          "bX\x06\x00\x00\x00labelsq\x17]q\x18(K\x06K\x09"
          "eu.");
  expect_two_pictures(parse_cifar10_pickle(bytes, "batch"));
}

TEST(Cifar10Pickle, ReadsWhatPython3WritesInProtocol4) {
  const std::string array =
      raw("\x8C\x16numpy._core.multiarray\x94\x8C\x0C_"
          "reconstruct\x94\x93\x94\x8C\x05numpy\x94\x8C\x07ndarray\x94\x93\x94"
          "K\x00\x85\x94"
          "C\x01"
          "b\x94\x87\x94R\x94(K\x01K\x02M\x00\x0C\x86\x94h\x05\x8C\x05"
          "dtype\x94\x93\x94\x8C\x02u1\x94\x89\x88\x87\x94R\x94"
          "(K\x03\x8C\x01|\x94NNNJ\xFF\xFF\xFF\xFFJ\xFF\xFF\xFF\xFFK\x00t\x94"
          "b\x89"
          "B") +
      length4(2 * kCifar10ImageBytes) + pixels(2) +
      raw("\x94t\x94"
          "b");
  const std::string body = raw("}\x94(\x8C\x04"
                               "data\x94") +
                           array +
                           raw("\x8C\x06labels\x94]\x94(K\x06K\x09"
                               "eu.");
  const std::string bytes = raw("\x80\x04\x95") + length4(body.size()) + length4(0) + body;
  expect_two_pictures(parse_cifar10_pickle(bytes, "batch"));
}

TEST(Cifar10Pickle, ReadsSingleItemsAppendedAndSet) {
  const std::string bytes = raw("\x80\x02}q\x01U\x06labelsq\x02]q\x03K\x03"
                                "asU\x09"
                                "filenamesq\x04]q\x05U\x01xasU\x04"
                                "dataq\x06") +
                            python2_array(1, pixels(1)) + "s.";
  const auto read = parse_cifar10_pickle(bytes, "batch");
  EXPECT_EQ(read.batch.labels, (std::vector<std::uint8_t>{3}));
  EXPECT_THAT(read.filenames, ElementsAre("x"));
}

TEST(Cifar10Pickle, RefusesWhatWouldRunCode) {
  const std::string evil =
      raw("\x80\x02"
          "cos\nsystem\nU\x04true\x85R.");
  EXPECT_THAT(pickle_message(evil),
              HasSubstr("batch: not a CIFAR-10 pickle at offset 2: a dictionary was expected"));
  std::string in_array = python2_pickle();
  in_array.replace(in_array.find("_reconstruct"), 12, "_reconstrucT");
  EXPECT_THAT(pickle_message(in_array), HasSubstr("a name that does not belong there"));
}

TEST(Cifar10Pickle, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(pickle_message(""), HasSubstr("offset 0: a pickle of protocol 2 to 4"));
  EXPECT_THAT(pickle_message(raw("\x80\x05}.")), HasSubstr("protocol 5"));
  EXPECT_THAT(pickle_message(raw("\x80\x02}.")), HasSubstr("no data or no labels"));
  EXPECT_THAT(pickle_message(python2_pickle() + "x"), HasSubstr("bytes behind the end"));
  EXPECT_THAT(pickle_message(raw("\x80\x02}(U\x05"
                                 "coarse")),
              HasSubstr("a key other than"));
  EXPECT_THAT(pickle_message(raw("\x80\x02}(U\x06labels]K\x0A"
                                 "a")),
              HasSubstr("label 10 of picture 0"));
  EXPECT_THAT(pickle_message(raw("\x80\x02}(U\x06labels]U\x06labels]")), HasSubstr("comes twice"));
  EXPECT_THAT(pickle_message(raw("\x80\x02}(h\x07")), HasSubstr("memo 7 was never stored"));
  EXPECT_THAT(pickle_message(raw("\x80\x02}r\xFF\xFF\xFF\xFF")),
              HasSubstr("memo 4294967295 out of order"));
  EXPECT_THAT(pickle_message(kHead + python2_array(3, pixels(2)) + kTail),
              HasSubstr("6144 bytes of pixels for 3"));
  EXPECT_THAT(pickle_message(kHead + python2_array(1, pixels(1)) + kTail),
              HasSubstr("2 labels for 1 pictures"));
}

TEST(Cifar10Pickle, NeverReadsBeyondATruncatedFile) {
  const std::string whole = python2_pickle();
  for (std::size_t length = 0; length < whole.size(); length += length < 500 ? 1 : 101) {
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW(parse_cifar10_pickle({cut.data(), cut.size()}, "batch"), DataLoss) << length;
  }
}

TEST(Cifar10Pickle, BoundsTheCopiesThatAMemoAsksFor) {
  std::string bytes = raw("\x80\x02}(U\x09"
                          "filenames](T") +
                      length4(10'000) + std::string(10'000, 'x') + "q\x01";
  for (int i = 0; i < 1000; ++i) bytes += "h\x01";
  EXPECT_THAT(pickle_message(bytes), HasSubstr("strings that are larger than the file"));
}

TEST(Cifar10Pickle, HoldsTheSamePicturesAsTheRealBinaryFiles) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Path subset = data / "cifar-10/subset";
  for (const auto* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    const auto pickle = read_cifar10_pickle(subset / "cifar-10-batches-py" / name);
    const auto binary =
        read_cifar10_binary(subset / "cifar-10-batches-bin" / (std::string(name) + ".bin"));
    ASSERT_EQ(pickle.batch.size(), 100U);
    EXPECT_EQ(pickle.batch.labels, binary.labels) << name;
    EXPECT_EQ(pickle.batch.pixels, binary.pixels) << name;
    EXPECT_EQ(pickle.filenames.size(), 100U);
  }
  EXPECT_EQ(read_cifar10_pickle(subset / "cifar-10-batches-py/data_batch_1").batch_label,
            "training batch 1 of 5");
}

TEST(Cifar10MetaPickle, HoldsTheNamesOfTheRealTextFile) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  EXPECT_EQ(read_cifar10_meta_pickle(data / "cifar-10/batches.meta"),
            read_cifar10_label_names(data / "cifar-10/batches.meta.txt"));
}

TEST(Cifar10MetaPickle, MustHaveTenNames) {
  EXPECT_THROW(parse_cifar10_meta_pickle(raw("\x80\x02}(U\x0Blabel_names](U\x01xeu."), "meta"),
               DataLoss);
}

}  // namespace
}  // namespace muster
