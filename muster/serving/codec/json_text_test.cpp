#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "muster/base/random.h"
#include "muster/serving/codec/json_text_internal.h"

namespace muster::serving {
namespace {

template <typename T>
std::string shortest(T value) {
  std::string text = "x";
  append_shortest(value, text);
  return text.substr(1);
}

TEST(ShortestNumber, IsWrittenAsPythonWritesIt) {
  EXPECT_EQ(shortest(0.0), "0.0");
  EXPECT_EQ(shortest(-0.0), "-0.0");
  EXPECT_EQ(shortest(1.0), "1.0");
  EXPECT_EQ(shortest(-120.0), "-120.0");
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(0.1F), "0.1");
  EXPECT_EQ(shortest(double{0.1F}), "0.10000000149011612");
  EXPECT_EQ(shortest(1234.5), "1234.5");
  EXPECT_EQ(shortest(0.0001), "0.0001");
  EXPECT_EQ(shortest(0.00001), "1e-05");
  EXPECT_EQ(shortest(1.5e-7), "1.5e-07");
  EXPECT_EQ(shortest(1e15), "1000000000000000.0");
  EXPECT_EQ(shortest(9007199254740993.0), "9007199254740992.0");
  EXPECT_EQ(shortest(1e16), "1e+16");
  EXPECT_EQ(shortest(-1.25e100), "-1.25e+100");
  EXPECT_EQ(shortest(std::numeric_limits<double>::denorm_min()), "5e-324");
  EXPECT_EQ(shortest(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
}

template <typename Bits, typename T>
void expect_the_same(std::uint64_t random) {
  const T value = std::bit_cast<T>(static_cast<Bits>(random));
  if (!std::isfinite(value)) return;
  const std::string text = shortest(value);
  T back = 0;
  std::from_chars(text.data(), text.data() + text.size(), back);
  ASSERT_EQ(std::bit_cast<Bits>(back), static_cast<Bits>(random)) << text;
}

TEST(ShortestNumber, ReadsBackAsTheSame) {
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t bits = random.next_u64();
    expect_the_same<std::uint64_t, double>(bits);
    expect_the_same<std::uint32_t, float>(bits);
    expect_the_same<std::uint64_t, double>(std::bit_cast<std::uint64_t>(
        static_cast<double>(static_cast<float>(bits >> 40U) / 16777216.0F)));
  }
}

TEST(QuotedText, IsEscapedWhereItMustBe) {
  std::string out = "x";
  EXPECT_TRUE(append_quoted("Adm-clerical", out));
  EXPECT_EQ(out, "x\"Adm-clerical\"");
  out.clear();
  EXPECT_TRUE(append_quoted("a\"b\\c\n\x01\xC3\xA9", out));
  EXPECT_EQ(out, "\"a\\\"b\\\\c\\n\\u0001\xC3\xA9\"");
  out = "x";
  EXPECT_FALSE(append_quoted("\xFF", out));
  EXPECT_EQ(out, "x");
}

}  // namespace
}  // namespace muster::serving
