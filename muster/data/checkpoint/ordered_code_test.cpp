#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "muster/data/checkpoint/ordered_code_internal.h"

namespace muster {
namespace {

using namespace std::string_literals;

std::string signed_code(std::int64_t value) {
  std::string out;
  append_ordered_signed(out, value);
  return out;
}

std::string number_code(std::uint64_t value) {
  std::string out;
  append_ordered_number(out, value);
  return out;
}

TEST(OrderedCode, WritesANumberAsItsLengthAndItsBytes) {
  EXPECT_EQ(number_code(0), "\0"s);
  EXPECT_EQ(number_code(1), "\x01\x01"s);
  EXPECT_EQ(number_code(256), "\x02\x01\x00"s);
}

TEST(OrderedCode, WritesASmallSignedNumberInOneByte) {
  EXPECT_EQ(signed_code(0), "\x80"s);
  EXPECT_EQ(signed_code(-1), "\x7f"s);
  EXPECT_EQ(signed_code(63), "\xbf"s);
  EXPECT_EQ(signed_code(-64), "\x40"s);
}

TEST(OrderedCode, WritesALongerSignedNumberBehindAHeadOfOnes) {
  EXPECT_EQ(signed_code(64), "\xc0\x40"s);
  EXPECT_EQ(signed_code(-65), "\x3f\xbf"s);
  EXPECT_EQ(signed_code(std::numeric_limits<std::int64_t>::max()),
            "\xff\xc0\x7f\xff\xff\xff\xff\xff\xff\xff"s);
}

TEST(OrderedCode, KeepsTheOrderOfSignedNumbers) {
  std::vector<std::int64_t> values{0};
  for (int shift = 0; shift < 63; ++shift) {
    for (const std::int64_t near : {-1, 0, 1}) {
      values.push_back((std::int64_t{1} << shift) + near);
      values.push_back(-(std::int64_t{1} << shift) + near);
    }
  }
  values.push_back(std::numeric_limits<std::int64_t>::min());
  values.push_back(std::numeric_limits<std::int64_t>::max());
  std::sort(values.begin(), values.end());
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i - 1] == values[i]) continue;
    EXPECT_LT(signed_code(values[i - 1]), signed_code(values[i]))
        << values[i - 1] << " " << values[i];
  }
}

TEST(OrderedCode, EscapesZeroAndAllOnesInAString) {
  std::string out;
  append_ordered_string(out, "a\0b\xff"s);
  EXPECT_EQ(out,
            "a\0\xff"
            "b\xff\0\0\x01"s);
}

}  // namespace
}  // namespace muster
