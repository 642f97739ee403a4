#include "muster/data/weights/weight_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

/// A tensor of the numbers `first`, `first` + 1, ...
Weight floats(std::string name, std::vector<std::int64_t> shape, float first = 0) {
  const auto values = std::make_shared<std::vector<float>>();
  for (std::int64_t i = 0; i < element_count(shape).value(); ++i) {
    values->push_back(first + static_cast<float>(i));
  }
  Weight weight{.name = std::move(name), .spec = {.shape = std::move(shape)}};
  weight.strides = row_major_strides(weight.spec.shape);
  weight.storage = storage_of(WeightBytes{std::as_bytes(std::span(*values)), values});
  return weight;
}

std::vector<float> values_of(const Weight& weight) {
  const WeightBytes bytes = row_major_bytes(weight);
  std::vector<float> values(bytes.bytes.size() / 4);
  std::memcpy(values.data(), bytes.bytes.data(), bytes.bytes.size());
  return values;
}

std::vector<std::string> names_of(const std::vector<Weight>& tensors) {
  std::vector<std::string> names;
  for (const Weight& weight : tensors) names.push_back(weight.name);
  return names;
}

TEST(WeightMap, RenamesWholeNamesAndReplacesParts) {
  WeightMap map;
  map.rename(R"(module\.(.*))", "$1").replace("/", ".");
  const auto tensors = map.apply({floats("module.a/b/c", {1}), floats("my.module.d", {1})});
  EXPECT_THAT(names_of(tensors), ElementsAre("a.b.c", "my.module.d"));
}

TEST(WeightMap, PermutesDimensions) {
  const auto tensors = WeightMap().permute(".*kernel", {1, 0}).apply({floats("kernel", {2, 3})});
  EXPECT_THAT(tensors[0].spec.shape, ElementsAre(3, 2));
  EXPECT_THAT(values_of(tensors[0]), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(WeightMap, SplitsAndJoinsAlongAnyDimension) {
  WeightMap split;
  split.split(R"((.*)\.qkv)", 1, {"$1.q", "$1.k", "$1.v"});
  auto parts = split.apply({floats("h.0.qkv", {2, 6}), floats("other", {1})});
  EXPECT_THAT(names_of(parts), ElementsAre("h.0.q", "h.0.k", "h.0.v", "other"));
  EXPECT_THAT(values_of(parts[0]), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(values_of(parts[2]), ElementsAre(4, 5, 10, 11));

  WeightMap join;
  join.join(R"((.*)\.q)", {"$1.k", "$1.v"}, 1, "$1.qkv");
  const auto whole = join.apply(std::move(parts));
  EXPECT_THAT(names_of(whole), ElementsAre("h.0.qkv", "other"));
  EXPECT_THAT(whole[0].spec.shape, ElementsAre(2, 6));
  EXPECT_THAT(values_of(whole[0]), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(WeightMap, ReadsRulesFromText) {
  const WeightMap map = WeightMap::parse(
      "# From a checkpoint of TensorFlow.\n"
      "drop global_step\n"
      "\n"
      "permute .*/kernel 1 0\r\n"
      "rename (.*)/kernel $1/weight\n"
      "replace / .\n"
      "split fc\\.weight 0 fc.0 fc.1\n"
      "join fc.1 fc.0 0 fc.swapped\n",
      "rules.txt");
  const auto tensors = map.apply({floats("global_step", {}), floats("fc/kernel", {1, 2})});
  EXPECT_THAT(names_of(tensors), ElementsAre("fc.swapped"));
  EXPECT_THAT(values_of(tensors[0]), ElementsAre(1, 0));
}

TEST(WeightMap, NamesTheLineOfABadRule) {
  EXPECT_THAT(message_of([] { WeightMap::parse("drop a\nrenme a b\n", "rules.txt"); }),
              AllOf(HasSubstr("rules.txt: line 2"), HasSubstr("renme a b")));
  EXPECT_THAT(message_of([] { WeightMap::parse("drop (a", "rules.txt"); }),
              HasSubstr("'(a' is no regular expression"));
  EXPECT_THAT(message_of([] { WeightMap::parse("permute a x", "rules.txt"); }),
              HasSubstr("'x' is no dimension"));
}

TEST(WeightMap, RefusesARuleThatDoesNotFit) {
  const std::vector<Weight> tensors{floats("a", {2, 3}), floats("b", {3, 3})};
  const auto refused = [&](const char* rule) {
    return message_of([&] { WeightMap::parse(rule, "t").apply(tensors); });
  };
  EXPECT_THAT(refused("drop c"),
              AllOf(HasSubstr("rule 'drop c'"),
                    HasSubstr("matches none of the 2 tensors; the first are: a, b")));
  EXPECT_THAT(refused("permute a 0 2"), HasSubstr("does not have the dimensions [0, 2]"));
  EXPECT_THAT(refused("split a 1 x y"), HasSubstr("cannot be cut into 2 equal parts"));
  EXPECT_THAT(refused("split a 2 x y"), HasSubstr("has no dimension 2"));
  EXPECT_THAT(refused("join a b 1 c"), HasSubstr("cannot be joined along dimension 1"));
  EXPECT_THAT(refused("join a z 0 c"), HasSubstr("no tensor 'z' to be joined with 'a'"));
  EXPECT_THAT(refused("rename . x"), HasSubstr("two tensors the name 'x'"));
}

TEST(WeightMap, RefusesRulesThatGiveNoName) {
  for (const char* rule : {"rename a $9", "replace a $9", "split a 0 b $9", "join a b 0 $9"}) {
    EXPECT_THAT(message_of([&] {
                  WeightMap::parse(rule, "rules").apply({floats("a", {2}), floats("b", {2})});
                }),
                AllOf(HasSubstr(rule), HasSubstr("tensor 'a' would have an empty name")))
        << rule;
  }
}

}  // namespace
}  // namespace muster
