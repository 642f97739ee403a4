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

}  // namespace
}  // namespace muster
