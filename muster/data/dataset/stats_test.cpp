#include "muster/data/dataset/stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(Stats, CountsTheElementsOfEveryStageOverAllEpochs) {
  auto iterator =
      range(10).filter([](std::int64_t value) { return value < 4; }).repeat(3).batch(5).iterate();
  drain(*iterator);
  const auto stages = iterator->stats().stages;
  ASSERT_EQ(stages.size(), 4u);
  EXPECT_EQ(stages[0].name, "batch(5)");
  EXPECT_EQ(stages[0].elements, 3u);
  EXPECT_EQ(stages[1].name, "repeat(3)");
  EXPECT_EQ(stages[1].elements, 12u);
  EXPECT_EQ(stages[2].elements, 12u);
  EXPECT_EQ(stages[3].name, "range(10)");
  EXPECT_EQ(stages[3].elements, 30u);
  EXPECT_EQ(stages[3].depth, 3u);
}

TEST(Stats, CountsFailures) {
  auto iterator =
      range(3).map([](std::int64_t) -> std::int64_t { throw DataLoss("bad"); }).iterate();
  drain_events(*iterator, show_number);
  EXPECT_EQ(iterator->stats().stages[0].failures, 3u);
}

TEST(Stats, ShowsAQueueAndItsCapacity) {
  auto iterator = range(10).prefetch(4).iterate();
  iterator->next();
  const StageStats stage = iterator->stats().stages[0];
  EXPECT_EQ(stage.queue_capacity, 4u);
  EXPECT_EQ(stage.threads, 1u);
  EXPECT_LE(stage.queue_depth, 4u);
}

PipelineStats of(std::vector<StageStats> stages) { return {std::move(stages), 10s}; }

StageStats queue(std::string name, std::chrono::nanoseconds consumer_wait) {
  StageStats stats;
  stats.name = std::move(name);
  stats.queue_capacity = 2;
  stats.threads = 1;
  stats.consumer_wait = consumer_wait;
  return stats;
}

TEST(Stats, FindsTheBottleneck) {
  EXPECT_THAT(of({queue("prefetch(2)", 0s)}).bottleneck(), HasSubstr("the consumer"));
  EXPECT_THAT(of({queue("prefetch(2)", 5s), queue("parallel_map(2)", 0s)}).bottleneck(),
              HasSubstr("between parallel_map(2) and prefetch(2)"));
  EXPECT_THAT(of({queue("prefetch(2)", 5s), queue("parallel_map(2)", 6s)}).bottleneck(),
              HasSubstr("parallel_map(2) or what feeds it"));
  EXPECT_THAT(of({StageStats{}}).bottleneck(), HasSubstr("add prefetch"));
}

TEST(Stats, PrintsATableThatEndsWithTheBottleneck) {
  auto iterator = range(10).batch(2).prefetch(2).iterate();
  drain(*iterator);
  const std::string text = iterator->stats().to_text();
  EXPECT_THAT(text, HasSubstr("prefetch(2)"));
  EXPECT_THAT(text, HasSubstr("    range(10)"));
  EXPECT_THAT(text, HasSubstr("bottleneck:"));
}

}  // namespace
}  // namespace muster
