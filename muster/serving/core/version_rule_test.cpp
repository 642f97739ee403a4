#include "muster/serving/core/version_rule.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::IsEmpty;

using Counts = std::map<std::int64_t, int>;

constexpr int kRequests = 100'000;
// Half a point of all requests.
constexpr int kHalfPoint = kRequests / 200;

bool all_answer(std::int64_t) { return true; }

ModelConfig rule_model(std::map<std::string, double, std::less<>> weights) {
  return {.name = "m",
          .default_version = 1,
          .labels = {{"stable", 1}, {"canary", 2}},
          .weights = std::move(weights)};
}

std::int64_t by_key(const ModelConfig& config, const std::string& key,
                    const Answers& answers = all_answer) {
  return decide_version(config, {.key = key}, answers, 0).value();
}

std::string key_of(int user) { return fmt::format("user-{}", user); }

Counts counts_by_key(const ModelConfig& config) {
  Counts counts;
  for (int i = 0; i < kRequests; ++i) ++counts[by_key(config, key_of(i))];
  return counts;
}

Counts counts_by_draw(const ModelConfig& config) {
  std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): the same numbers in each run.
  Counts counts;
  for (int i = 0; i < kRequests; ++i) {
    ++counts[decide_version(config, {}, all_answer, random()).value()];
  }
  return counts;
}

TEST(VersionRule, NumberLabelAndNameComeBeforeWeights) {
  const ModelConfig config = rule_model({{"canary", 100}});
  EXPECT_EQ(decide_version(config, {.number = 7}, all_answer, 1), 7);
  EXPECT_EQ(decide_version(config, {.label = "stable"}, all_answer, 1), 1);
  EXPECT_EQ(decide_version(config, {.name = "stable"}, all_answer, 1), 1);
  EXPECT_EQ(decide_version(config, {.name = "v3"}, all_answer, 1), 3);
  EXPECT_EQ(decide_version(config, {.name = "3"}, all_answer, 1), 3);
  EXPECT_THROW(decide_version(config, {.label = "none"}, all_answer, 1), InvalidArgument);
  EXPECT_THROW(decide_version(config, {.name = "none"}, all_answer, 1), InvalidArgument);
}

TEST(VersionRule, WithoutWeightsTheDefaultAnswersAndElseTheNewest) {
  ModelConfig config = rule_model({});
  EXPECT_EQ(decide_version(config, {.key = "anna"}, all_answer, 1), 1);
  config.default_version.reset();
  EXPECT_EQ(decide_version(config, {}, all_answer, 1), std::nullopt);
}

TEST(VersionRule, SharesAreWithinHalfAPointOver100000Keys) {
  const Counts ten = counts_by_key(rule_model({{"stable", 90}, {"canary", 10}}));
  EXPECT_NEAR(ten.at(2), 0.1 * kRequests, kHalfPoint);
  EXPECT_NEAR(ten.at(1), 0.9 * kRequests, kHalfPoint);
  const Counts three = counts_by_key(rule_model({{"1", 1}, {"2", 0.5}, {"3", 0.5}}));
  EXPECT_NEAR(three.at(1), 0.5 * kRequests, kHalfPoint);
  EXPECT_NEAR(three.at(2), 0.25 * kRequests, kHalfPoint);
  EXPECT_NEAR(three.at(3), 0.25 * kRequests, kHalfPoint);
}

TEST(VersionRule, SharesAreWithinHalfAPointOver100000RequestsWithoutAKey) {
  const Counts counts = counts_by_draw(rule_model({{"stable", 90}, {"canary", 10}}));
  EXPECT_NEAR(counts.at(2), 0.1 * kRequests, kHalfPoint);
}

TEST(VersionRule, AKeyAlwaysGetsTheSameVersion) {
  const ModelConfig config = rule_model({{"stable", 90}, {"canary", 10}});
  for (int i = 0; i < 100; ++i) {
    const auto first = decide_version(config, {.key = key_of(i)}, all_answer, 1);
    EXPECT_EQ(decide_version(config, {.key = key_of(i)}, all_answer, 12345), first);
  }
  // A fixed outcome: other servers, and later versions of this one, must give the same.
  std::set<int> canaries;
  for (int i = 0; i < 40; ++i) {
    if (by_key(config, key_of(i)) == 2) canaries.insert(i);
  }
  EXPECT_THAT(canaries, ElementsAre(0, 4, 7, 26, 29));
}

TEST(VersionRule, ALargerWeightMovesKeysToItsVersionOnly) {
  const ModelConfig before = rule_model({{"1", 45}, {"2", 10}, {"3", 45}});
  const ModelConfig after = rule_model({{"1", 45}, {"2", 30}, {"3", 45}});
  for (int i = 0; i < 5000; ++i) {
    const auto now = by_key(after, key_of(i));
    if (now != 2) {
      EXPECT_EQ(now, by_key(before, key_of(i))) << i;
    }
  }
}

TEST(VersionRule, TheOthersShareTheKeysOfAVersionThatDoesNotAnswer) {
  const ModelConfig config = rule_model({{"1", 45}, {"2", 10}, {"3", 45}});
  const Answers without_two = [](std::int64_t number) { return number != 2; };
  for (int i = 0; i < 5000; ++i) {
    const auto usual = by_key(config, key_of(i));
    const auto now = by_key(config, key_of(i), without_two);
    EXPECT_NE(now, 2) << i;
    if (usual != 2) {
      EXPECT_EQ(now, usual) << i;
    }
  }
}

TEST(VersionRule, TheDefaultAnswersWhenNoVersionWithAWeightDoes) {
  const Answers none = [](std::int64_t) { return false; };
  EXPECT_EQ(decide_version(rule_model({{"canary", 1}}), {.key = "anna"}, none, 1), 1);
}

TEST(VersionRule, ModelsHaveTheirCanariesAtOtherCallers) {
  ModelConfig first = rule_model({{"1", 50}, {"2", 50}});
  ModelConfig second = first;
  second.name = "n";
  int same = 0;
  for (int i = 0; i < 10'000; ++i) {
    same += by_key(first, key_of(i)) == by_key(second, key_of(i)) ? 1 : 0;
  }
  EXPECT_NEAR(same, 5000, 200);
}

TEST(VersionRule, AQuestionWithoutADrawIsForTheLargestShare) {
  const ModelConfig config = rule_model({{"stable", 10}, {"canary", 90}});
  EXPECT_EQ(decide_version(config, {}, all_answer, std::nullopt), 2);
}

TEST(VersionRule, SharesSumToOne) {
  const ModelConfig config = rule_model({{"stable", 30}, {"v1", 15}, {"canary", 15}, {"9", 0}});
  EXPECT_THAT(shares_of(config, all_answer), ElementsAre(FieldsAre(1, 0.75), FieldsAre(2, 0.25)));
  EXPECT_THAT(shares_of(rule_model({}), all_answer), IsEmpty());
}

}  // namespace
}  // namespace muster::serving
