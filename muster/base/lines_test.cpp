#include "muster/base/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(Lines, EndWithLfOrCrlfOrTheText) {
  EXPECT_THAT(lines_of("a\nb\r\n\nc"), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(lines_of("a\n"), ElementsAre("a"));
  EXPECT_THAT(lines_of(""), ElementsAre());
}

TEST(Lines, AreAtMostSoMany) { EXPECT_THAT(lines_of("a\nb\nc", 2), ElementsAre("a", "b")); }

TEST(Lines, ComeWithoutAByteOrderMarkWhereThatIsAskedFor) {
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF{}"), "{}");
  EXPECT_EQ(without_byte_order_mark("{}"), "{}");
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB"), "\xEF\xBB");
}

}  // namespace
}  // namespace muster
