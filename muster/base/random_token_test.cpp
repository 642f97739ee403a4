#include "muster/base/random_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(RandomToken, HasThirtyTwoDigitsAndIsAnotherEachTime) {
  const std::string token = random_token();
  EXPECT_THAT(token, ::testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(token, random_token());
}

}  // namespace
}  // namespace muster
