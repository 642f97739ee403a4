#include "muster/data/records/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_bytes;

/// As numpy.save lays a file out: the header is padded with blanks and ends in a line feed.
std::string npy(const std::string& dictionary, const std::string& data, int version = 1) {
  const std::string header = dictionary + std::string(20, ' ') + "\n";
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    out += static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}

std::string npy_message(const std::string& bytes) {
  try {
    parse_npy(bytes, "x.npy");
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Npy, ReadsAFileItemByItem) {
  const TempDir folder;
  write_bytes(folder / "x.npy",
              npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", "abcdef"));
  const NpyArray array = read_npy(folder / "x.npy");
  EXPECT_EQ(array.type, NpyType::kUint8);
  EXPECT_THAT(array.shape, ElementsAre(2, 3));
  EXPECT_EQ(array.items(), 2U);
  EXPECT_EQ(array.item(1), "def");
}

TEST(Npy, ReadsEveryTypeAndVersion) {
  const auto type_of = [](const std::string& descr, std::size_t bytes, int version) {
    return parse_npy(npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (1,), }",
                         std::string(bytes, 'x'), version),
                     "x")
        .type;
  };
  EXPECT_EQ(type_of("<i4", 4, 1), NpyType::kInt32);
  EXPECT_EQ(type_of("<i8", 8, 2), NpyType::kInt64);
  EXPECT_EQ(type_of("<f4", 4, 3), NpyType::kFloat);
  EXPECT_EQ(type_of("<f8", 8, 1), NpyType::kDouble);
}

TEST(Npy, ReadsASingleValueAndAnEmptyArray) {
  const auto single =
      parse_npy(npy("{'shape': (), 'descr': '<f4', 'fortran_order': False}", "abcd"), "x");
  EXPECT_TRUE(single.shape.empty());
  EXPECT_EQ(single.item(0), "abcd");
  const auto none =
      parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5)}", ""), "x");
  EXPECT_EQ(none.items(), 0U);
}

TEST(Npy, ReadsStringsOfBothKinds) {
  const auto bytes = parse_npy(npy("{'descr': '|S3', 'fortran_order': False, 'shape': (2,), }",
                                   std::string("ab\0\0\0\0", 6)),
                               "x");
  EXPECT_THAT(npy_strings(bytes), ElementsAre("ab", ""));
  const std::string text = {'a', 0, 0, 0, '\xE9', 0, 0, 0, 0x0D, '\xF6', 1, 0, 0, 0, 0, 0};
  const auto unicode =
      parse_npy(npy("{'descr': '<U4', 'fortran_order': False, 'shape': (), }", text), "x");
  EXPECT_THAT(npy_strings(unicode), ElementsAre("a\xC3\xA9\xF0\x9F\x98\x8D"));
  const auto bad = parse_npy(
      npy("{'descr': '<U1', 'fortran_order': False, 'shape': (), }", "\xFF\xFF\xFF\xFF"), "x");
  EXPECT_THROW(npy_strings(bad), DataLoss);
  EXPECT_THROW(npy_strings({.type = NpyType::kFloat}), InvalidArgument);
  for (const char* descr :
       {"|S0", "|S", "<U-1", "|S99999999999999999999", "<U4611686018427387905"}) {
    EXPECT_THAT(npy_message(npy("{'descr': '" + std::string(descr) +
                                    "', 'fortran_order': False, 'shape': (9999999999,), }",
                                "")),
                ::testing::AnyOf(HasSubstr("dtype '"), HasSubstr("more than can be counted")));
  }
}

TEST(Npy, WritesWhatNumpySaves) {
  // numpy.save of numpy.array([[1.5, -2]], '<f4').
  const NpyArray floats{
      .type = NpyType::kFloat, .shape = {1, 2}, .data = std::string("\0\0\xC0\x3F\0\0\0\xC0", 8)};
  const std::string saved = "\x93NUMPY\x01" + std::string("\0v\0", 3) +
                            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }" +
                            std::string(58, ' ') + "\n";
  EXPECT_EQ(encode_npy(floats), saved + floats.data);
  const NpyArray back = parse_npy(encode_npy(floats), "x");
  EXPECT_EQ(back.data, floats.data);
  const auto strings = npy_of_strings({2}, {"a", "bcd"});
  EXPECT_EQ(strings.width, 3U);
  EXPECT_THAT(npy_strings(parse_npy(encode_npy(strings), "x")), ElementsAre("a", "bcd"));
  EXPECT_THAT(encode_npy(strings),
              HasSubstr("'descr': '|S3', 'fortran_order': False, 'shape': (2,)"));
  EXPECT_EQ(npy_strings(parse_npy(encode_npy(npy_of_strings({1}, {""})), "x")).size(), 1U);
  EXPECT_THROW(encode_npy({.type = NpyType::kFloat, .shape = {2}, .data = "abcd"}),
               InvalidArgument);
}

TEST(Npy, NamesWhatItDoesNotRead) {
  EXPECT_THAT(npy_message(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "abcd")),
              HasSubstr("dtype '>f4'; known are"));
  EXPECT_THAT(npy_message(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "abcd")),
              HasSubstr("Fortran order"));
  EXPECT_THAT(
      npy_message(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "")),
      HasSubstr("structured dtype"));
  EXPECT_THAT(npy_message(npy("{}", "", 9)), HasSubstr("format 9"));
}

TEST(Npy, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(npy_message("PK\x03\x04 zip"), HasSubstr("not a .npy file"));
  EXPECT_THAT(npy_message(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "abc")),
              HasSubstr("the data takes 4 bytes"));
  EXPECT_THAT(
      npy_message(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "abcde")),
      HasSubstr("more bytes than the header says"));
  EXPECT_THAT(npy_message(npy("{'descr': '<f4', 'shape': (1,), }", "abcd")),
              HasSubstr("is missing"));
  EXPECT_THAT(npy_message(npy("{'descr': '<f4', 'descr': '<f4'}", "")),
              HasSubstr("unexpected key 'descr'"));
  EXPECT_THAT(npy_message(npy("{'shape': (-1,)}", "")), HasSubstr("offset 21: bad dimension"));
  EXPECT_THAT(npy_message(npy("{'descr", "")), HasSubstr("a string that does not end"));
}

TEST(Npy, TakesNoMemoryForAShapeThatIsNotThere) {
  EXPECT_THAT(
      npy_message(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,)}", "abc")),
      HasSubstr("but only 3 are there"));
  EXPECT_THAT(
      npy_message(
          npy("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999)}", "")),
      HasSubstr("more than can be counted"));
}

}  // namespace
}  // namespace muster
