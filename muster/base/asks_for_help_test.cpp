#include "muster/base/asks_for_help_internal.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster::internal {
namespace {

bool asks(std::vector<const char*> words) {
  words.push_back(nullptr);
  return asks_for_help(words.data());
}

TEST(AsksForHelp, ByItsFlagAnywhereAndByVersionAtTheEnd) {
  EXPECT_TRUE(asks({"census", "--help"}));
  EXPECT_TRUE(asks({"census", "--train-steps", "3", "-h"}));
  EXPECT_TRUE(asks({"census", "--version"}));
  EXPECT_FALSE(asks({"census"}));
  EXPECT_FALSE(asks({}));
}

TEST(AsksForHelp, NotByTheVersionOfAModelNorByWordsForAnotherProgram) {
  EXPECT_FALSE(asks({"muster", "predict", "--model", "m", "--version", "3"}));
  EXPECT_FALSE(asks({"muster", "launch", "--", "census", "--help"}));
}

}  // namespace
}  // namespace muster::internal
