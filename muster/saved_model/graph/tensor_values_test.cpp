#include "muster/saved_model/graph/tensor_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace muster::graph {
namespace {

std::vector<std::string> names_of(const TensorValues& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

TensorValue number(float value) { return TensorValue::scalar(value); }

TEST(TensorValues, AreSortedByNameWhateverTheOrderTheyComeIn) {
  TensorValues values;
  for (const char* name : {"b", "d", "a", "c", "e", ""}) values.emplace(name, number(1));
  EXPECT_THAT(names_of(values), ::testing::ElementsAre("", "a", "b", "c", "d", "e"));
  EXPECT_EQ(values, (TensorValues{{"e", number(1)},
                                  {"d", number(1)},
                                  {"c", number(1)},
                                  {"b", number(1)},
                                  {"a", number(1)},
                                  {"", number(1)}}));
}

TEST(TensorValues, KeepTheFirstOfAName) {
  TensorValues values{{"b", number(1)}, {"b", number(2)}};
  EXPECT_FALSE(values.emplace("b", number(3)).second);
  EXPECT_TRUE(values.emplace("a", number(4)).second);
  EXPECT_EQ(values.size(), 2);
  EXPECT_EQ(values.at("b"), number(1));
  values["b"] = number(5);
  values["c"] = number(6);
  EXPECT_EQ(values, (TensorValues{{"a", number(4)}, {"b", number(5)}, {"c", number(6)}}));
}

TEST(TensorValues, FindWhatIsThereOnly) {
  TensorValues values{{"a", number(1)}, {"c", number(2)}};
  EXPECT_TRUE(values.contains("a"));
  for (const char* name : {"", "b", "d", "aa"}) {
    EXPECT_FALSE(values.contains(name));
    EXPECT_EQ(values.find(name), values.end());
    EXPECT_THROW(values.at(name), std::out_of_range);
  }
  values.erase(values.find("a"));
  EXPECT_THAT(names_of(values), ::testing::ElementsAre("c"));
  values.clear();
  EXPECT_TRUE(values.empty());
  EXPECT_FALSE(values.contains("c"));
}

}  // namespace
}  // namespace muster::graph
