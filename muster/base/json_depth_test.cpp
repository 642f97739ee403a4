#include "muster/base/json_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

TEST(JsonDepth, CountsListsAndObjectsThatAreOpen) {
  EXPECT_FALSE(is_json_deeper_than(2, R"([{}, {}, [], [1, 2]])"));
  EXPECT_TRUE(is_json_deeper_than(2, R"([{"a": []}])"));
  EXPECT_TRUE(is_json_deeper_than(64, std::string(65, '[')));
  EXPECT_FALSE(is_json_deeper_than(64, std::string(64, '[')));
}

TEST(JsonDepth, PassesOverBracketsInStrings) {
  EXPECT_FALSE(is_json_deeper_than(1, R"(["[[", "\"[[", "{{\\"])"));
  EXPECT_TRUE(is_json_deeper_than(1, R"(["\\", [])"));
  EXPECT_FALSE(is_json_deeper_than(1, "\"\\"));
}

}  // namespace
}  // namespace muster
