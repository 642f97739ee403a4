#include "muster/serving/front/joined_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

namespace muster::serving {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string page_of(int requests, int in_flight) {
  return fmt::format(
      "# HELP in_flight Now.\n# TYPE in_flight gauge\nin_flight {}\n"
      "# HELP shares Of a version.\n# TYPE shares gauge\nshares{{model=\"a b\"}} 0.25\n"
      "# HELP requests_total All.\n# TYPE requests_total counter\n"
      "requests_total{{code=\"OK\"}} {}\n"
      "# HELP seconds Each.\n# TYPE seconds histogram\n"
      "seconds_bucket{{le=\"0.5\"}} 1\nseconds_bucket{{le=\"+Inf\"}} 2\n"
      "seconds_sum{{}} 0.75\nseconds_count{{}} 2\n",
      in_flight, requests);
}

TEST(JoinedMetrics, AddsCountersAndHistogramsAndTellsGaugesApart) {
  JoinedMetrics metrics;
  metrics.update(0, page_of(5, 1));
  metrics.update(1, page_of(7, 2));
  EXPECT_EQ(metrics.page(),
            "# HELP in_flight Now.\n# TYPE in_flight gauge\n"
            "in_flight{node=\"0\"} 1\nin_flight{node=\"1\"} 2\n"
            "# HELP shares Of a version.\n# TYPE shares gauge\n"
            "shares{model=\"a b\",node=\"0\"} 0.25\nshares{model=\"a b\",node=\"1\"} 0.25\n"
            "# HELP requests_total All.\n# TYPE requests_total counter\n"
            "requests_total{code=\"OK\"} 12\n"
            "# HELP seconds Each.\n# TYPE seconds histogram\n"
            "seconds_bucket{le=\"0.5\"} 2\nseconds_bucket{le=\"+Inf\"} 4\n"
            "seconds_sum{} 1.5\nseconds_count{} 4\n");
}

TEST(JoinedMetrics, CountersNeverFall) {
  JoinedMetrics metrics;
  metrics.update(0, page_of(5, 1));
  metrics.update(0, page_of(6, 1));  // In place of the last one.
  metrics.retire(0);
  metrics.retire(0);  // Once only.
  metrics.update(1, page_of(1, 3));
  const std::string page = metrics.page();
  EXPECT_THAT(page, HasSubstr("requests_total{code=\"OK\"} 7\n"));
  EXPECT_THAT(page, HasSubstr("in_flight{node=\"1\"} 3\n"));
  EXPECT_THAT(page, Not(HasSubstr("node=\"0\"")));
}

TEST(JoinedMetrics, SumsASampleOverNodesAndLabels) {
  JoinedMetrics metrics;
  metrics.update(0,
                 "# TYPE s histogram\ns_sum{a=\"1\"} 0.5\ns_sum{a=\"2\"} 1\ns_count{a=\"1\"} 7\n");
  metrics.retire(0);
  metrics.update(1, "# TYPE s histogram\ns_sum{a=\"1\"} 2\n# TYPE s_sum_of counter\ns_sum_of 9\n");
  EXPECT_EQ(metrics.total("s_sum"), 3.5);
  EXPECT_EQ(metrics.total("s_count"), 7);
  EXPECT_EQ(metrics.total("t"), 0);
}

TEST(JoinedMetrics, TakesNamesWithColonsAndLinesThatAreNone) {
  JoinedMetrics metrics;
  metrics.update(0,
                 "# TYPE :tensorflow:serving:request_count counter\n"
                 ":tensorflow:serving:request_count{model_name=\"m\"} 3\nnonsense\n\nx y\n");
  EXPECT_EQ(metrics.page(),
            "# TYPE :tensorflow:serving:request_count counter\n"
            ":tensorflow:serving:request_count{model_name=\"m\"} 3\n");
}

}  // namespace
}  // namespace muster::serving
