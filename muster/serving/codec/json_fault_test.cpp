#include "muster/serving/codec/json_fault_internal.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "muster/base/error.h"
#include "muster/serving/codec/json.h"

namespace muster::serving {
namespace {

std::string fault_of(std::string_view text) {
  const auto fault = find_json_fault(text);
  return fault ? std::string(fault->reason) + " " + std::to_string(fault->offset) : "none";
}

TEST(JsonFault, IsToldInTheWordsOfRapidJson) {
  EXPECT_EQ(fault_of("instances = [1, 2]"), "Invalid value. 0");
  EXPECT_EQ(fault_of(R"({"instances": [1.0, abc]})"), "Invalid value. 20");
  EXPECT_EQ(fault_of("[1, ]"), "Invalid value. 4");
  EXPECT_EQ(fault_of("[nul]"), "Invalid value. 4");
  EXPECT_EQ(fault_of("[-Infinite]"), "Invalid value. 9");
  EXPECT_EQ(fault_of(R"({"instances": [1.0)"), "Missing a comma or ] after an array element. 18");
  EXPECT_EQ(fault_of("[01]"), "Missing a comma or ] after an array element. 2");
  EXPECT_EQ(fault_of(R"({"a": 1 "b": 2})"), "Missing a comma or } after an object member. 8");
  EXPECT_EQ(fault_of("{a: 1}"), "Missing a name for object member. 1");
  EXPECT_EQ(fault_of(R"({"a": 1,})"), "Missing a name for object member. 8");
  EXPECT_EQ(fault_of(R"({"a" 1})"), "Missing a colon after a name of object member. 5");
  EXPECT_EQ(fault_of("[1.]"), "Miss fraction part in number. 3");
  EXPECT_EQ(fault_of("[1e+]"), "Miss exponent in number. 4");
  EXPECT_EQ(fault_of("[-1e999]"), "Number too big to be stored in double. 1");
  EXPECT_EQ(fault_of("[\"ab"), "Missing a closing quotation mark in string. 4");
  EXPECT_EQ(fault_of("[\"a\nb\"]"), "Invalid encoding in string. 3");
  EXPECT_EQ(fault_of(R"(["a\x"])"), "Invalid escape character in string. 3");
  EXPECT_EQ(fault_of(R"(["\u12g4"])"), "Incorrect hex digit after \\u escape in string. 2");
  EXPECT_EQ(fault_of(R"(["\ud800a"])"), "The surrogate pair in string is invalid. 2");
  EXPECT_EQ(fault_of("{} {}"), "The document root must not be followed by other values. 3");
  EXPECT_EQ(fault_of(R"({"a": [1.5e-3, -Infinity, "\ud83d\ude00\n", {}, [], null]} )"), "none");
}

// Where the parser finds no fault, the scanner must find none either, and the other way round.
TEST(JsonFault, IsFoundWhereTheParserFindsOne) {
  const std::string whole =
      R"({"a": [1.5e-3, -Inf, "\ud83d\ude00\n"], "b": {"c": [true, null, 0]}})";
  const std::string bytes = "0123456789-+.eE{}[],:\"\\ \nabntruflNIdD";
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string mutant = whole;
    for (auto changes = random() % 3; changes < 3; ++changes) {
      mutant.replace(random() % mutant.size(), random() % 3, random() % 2,
                     bytes[random() % bytes.size()]);
    }
    bool is_wrong = false;
    try {
      parse_json(mutant);
    } catch (const JsonSyntaxError&) {
      is_wrong = true;
    }
    ASSERT_EQ(find_json_fault(mutant).has_value(), is_wrong) << mutant;
    refused += is_wrong ? 1 : 0;
  }
  EXPECT_GT(refused, 10'000);
  EXPECT_LT(refused, 20'000);
}

}  // namespace
}  // namespace muster::serving
