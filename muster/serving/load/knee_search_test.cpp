#include "muster/serving/load/knee_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

/// A server with one queue: times of answers are exponential, with a mean that grows without bound
/// as the rate comes near to what it can answer (M/M/1).
struct SimulatedServer {
  double capacity = 1000;
  int asked = 0;

  RateOutcome ask(double rate) {
    ++asked;
    const double free = std::max(capacity - rate, capacity * 1e-6);
    return {.rate = rate,
            .p99_seconds = 4.605 / free,
            .error_share = rate > capacity ? 1 - capacity / rate : 0,
            .requests = rate,
            .answered = std::min(rate, capacity)};
  }
};

KneeSearch search(SimulatedServer& server, const KneeOptions& options) {
  KneeSearch search(options);
  while (const auto rate = search.next_rate()) search.add(server.ask(*rate));
  return search;
}

TEST(KneeSearch, FindsTheRateAtWhichTheLatencyPassesItsBound) {
  SimulatedServer server;
  const KneeSearch found =
      search(server, {.first_rate = 10, .precision = 0.02, .bounds = {.most_p99_seconds = 0.02}});
  // 4.605 / (1000 - r) = 0.02.
  const double knee = 1000 - 4.605 / 0.02;
  ASSERT_TRUE(found.knee() && found.lowest_failure());
  EXPECT_LE(*found.knee(), knee);
  EXPECT_GT(*found.lowest_failure(), knee);
  EXPECT_LE(*found.lowest_failure(), *found.knee() * 1.02);
  EXPECT_LE(server.asked, 24);
}

TEST(KneeSearch, FindsTheRateAtWhichErrorsBegin) {
  SimulatedServer server;
  const KneeSearch found = search(server, {.bounds = {.most_p99_seconds = 1e9}});
  EXPECT_NEAR(*found.knee(), 1000, 60);
}

TEST(KneeSearch, FindsTheRateThatIsNotKeptUpWith) {
  KneeSearch search({.precision = 0.02});
  // No errors and fast answers, as from a server whose client lets requests wait.
  while (const auto rate = search.next_rate()) {
    search.add({.rate = *rate, .requests = *rate, .answered = std::min(*rate, 500.0)});
  }
  EXPECT_NEAR(*search.knee(), 510 / 0.9, 15);
}

TEST(KneeSearch, EndsAtTheHighestRateThatMayBeTried) {
  SimulatedServer server{.capacity = 1e9};
  const KneeSearch found = search(server, {.most_rate = 3000});
  EXPECT_EQ(*found.knee(), 3000);
  EXPECT_FALSE(found.lowest_failure());
}

TEST(KneeSearch, GoesDownWhereTheFirstRateIsTooMuch) {
  SimulatedServer server{.capacity = 50};
  const KneeSearch found = search(server, {.first_rate = 1000, .bounds = {.most_p99_seconds = 1}});
  EXPECT_NEAR(*found.knee(), 45.4, 3);
}

TEST(KneeSearch, TriesARateAgainThatPassesABoundOnce) {
  SimulatedServer server;
  KneeSearch search({.first_rate = 100, .bounds = {.most_p99_seconds = 0.02}});
  bool has_stalled = false;
  while (const auto rate = search.next_rate()) {
    RateOutcome outcome = server.ask(*rate);
    if (*rate == 200 && !has_stalled) {
      has_stalled = true;
      outcome.p99_seconds = 1;
    }
    search.add(outcome);
  }
  EXPECT_TRUE(has_stalled);
  EXPECT_NEAR(*search.knee(), 1000 - 4.605 / 0.02, 40);
}

TEST(KneeSearch, SaysThatThereIsNoneWhereNothingIsAnswered) {
  KneeSearch search({});
  int asked = 0;
  while (const auto rate = search.next_rate()) {
    search.add({.rate = *rate, .error_share = 1});
    ASSERT_LT(++asked, 40);
  }
  EXPECT_FALSE(search.knee());
}

TEST(KneeSearch, NamesTheBoundThatIsPassed) {
  const KneeBounds bounds{.most_p99_seconds = 0.05, .most_error_share = 0.001};
  EXPECT_EQ(
      passed_bound({.rate = 100, .p99_seconds = 0.04, .requests = 100, .answered = 99}, bounds),
      std::nullopt);
  EXPECT_EQ(
      passed_bound({.rate = 100, .p99_seconds = 0.06, .requests = 100, .answered = 99}, bounds),
      "p99 was 60 ms, and may be 50 ms");
  EXPECT_EQ(
      passed_bound({.rate = 100, .error_share = 0.25, .requests = 100, .answered = 100}, bounds),
      "25 % of the requests failed, and 0.1 % may");
  EXPECT_EQ(passed_bound({.rate = 100, .requests = 100, .answered = 60}, bounds),
            "60 of 100 requests were answered in the measured time");
}

TEST(KneeSearch, RefusesOptionsThatCannotBe) {
  EXPECT_THROW(KneeSearch({.first_rate = 0}), InvalidArgument);
  EXPECT_THROW(KneeSearch({.first_rate = 10, .most_rate = 5}), InvalidArgument);
  EXPECT_THROW(KneeSearch({.growth = 1}), InvalidArgument);
  EXPECT_THROW(KneeSearch({.precision = 0}), InvalidArgument);
}

}  // namespace
}  // namespace muster::serving
