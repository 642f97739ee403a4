#include "muster/serving/front/node_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::serving {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Time = std::chrono::system_clock::time_point;

TEST(LatencyBuckets, TellPercentilesToAnEighth) {
  LatencyBuckets buckets;
  EXPECT_EQ(buckets.percentile_ms(0.5), 0);
  for (int i = 1; i <= 1000; ++i) buckets.add(milliseconds(i));
  EXPECT_NEAR(buckets.percentile_ms(0.5), 500, 500 / 8.0);
  EXPECT_NEAR(buckets.percentile_ms(0.99), 990, 990 / 8.0);
  const LatencyBuckets before = buckets;
  buckets.add(std::chrono::hours(1));
  buckets.add(std::chrono::nanoseconds(-1));
  EXPECT_EQ(buckets.since(before).count(), 2U);
  EXPECT_LT(buckets.since(before).percentile_ms(0.5), 0.1);
  EXPECT_GT(buckets.since(before).percentile_ms(1), 60'000);
}

NodeHistory::Look look_at(Time time, int answers) {
  NodeHistory::Look look{
      .time = time,
      .nodes =
          {{.number = 3, .state = "up", .address = "127.0.0.1:80", .process = 7, .in_flight = 2},
           {.number = 4, .state = "starting", .in_flight = 0}},
      .waiting = 1,
      .queue_seconds = 0.002 * answers,
      .queued_requests = static_cast<double>(answers)};
  for (int i = 0; i < answers; ++i) look.latencies.add(milliseconds(4));
  return look;
}

TEST(NodeHistory, HasAPointOfWhatCameInTenSeconds) {
  NodeHistory history;
  const Time start{seconds(1000)};
  history.add(look_at(start, 10));
  history.add(look_at(start + seconds(5), 20));
  EXPECT_THAT(history.page(Time()), HasSubstr("\"history\":{\"points\":0,"));
  history.add(look_at(start + seconds(10), 110));
  const std::string page = history.page(Time());
  EXPECT_THAT(page,
              AllOf(HasSubstr("{\"number\":3,\"state\":\"up\",\"address\":\"127.0.0.1:80\","
                              "\"process\":7,\"in_flight\":2,"),
                    HasSubstr("\"time\":[1010.000],\"up\":[1],\"in_flight\":[2],\"waiting\":[1],"
                              "\"answers_per_second\":[10.000],\"queue_ms\":[2.000],")));
  // Only what is new.
  history.add(look_at(start + seconds(20), 110));
  EXPECT_THAT(history.page(start + seconds(15)),
              AllOf(HasSubstr("\"time\":[1020.000]"), HasSubstr("\"p99_ms\":[0.000]"),
                    Not(HasSubstr("1010.000"))));
}

TEST(NodeHistory, KeepsADay) {
  NodeHistory history;
  Time time{seconds(1000)};
  for (std::size_t i = 0; i < NodeHistory::kMostPoints + 5; ++i) {
    history.add({.time = time});
    time += NodeHistory::kInterval;
  }
  const std::string page = history.page(Time());
  EXPECT_THAT(page, HasSubstr("\"points\":8640,\"time\":[1050.000,"));
}

}  // namespace
}  // namespace muster::serving
