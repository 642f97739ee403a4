#include "muster/console/cluster_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::console {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

ReportTime at(int seconds) { return ReportTime(std::chrono::seconds(seconds)); }

TEST(ClusterReport, TellsGenerationsAndWhatTheRunWaitedFor) {
  ClusterReport report;
  const auto chief = [&](int second, std::string_view line) {
    report.take("master-replica-0", at(second), line);
  };
  chief(1, "generation 1: replicas of master:0 [0, 1), worker:0 [1, 2)");
  chief(2, "generation 1: 2 tasks are ready seconds=0.125");
  report.take("worker-replica-0", at(3), "loss = 0.5, step = 40");
  chief(10, "worker:0 has not been heard of for 2.0 s");
  chief(12, "worker:0 is gone: it closed the connection");
  EXPECT_EQ(report.tasks().at("worker-replica-0").gone, "is gone: it closed the connection");
  chief(13, "the run waits for ps:0, which it cannot do without");
  chief(20, "generation 2: replicas of master:0 [0, 2)");
  EXPECT_FALSE(report.stalls()[0].ended);
  chief(21, "generation 2: 1 tasks are ready seconds=0.5");

  ASSERT_THAT(report.generations(), SizeIs(2));
  EXPECT_EQ(report.generations()[0].members, "master:0 [0, 1), worker:0 [1, 2)");
  EXPECT_EQ(report.generations()[1].seconds, 0.5);
  ASSERT_THAT(report.stalls(), SizeIs(3));
  EXPECT_EQ(report.stalls()[0].task, "worker-replica-0");
  EXPECT_THAT(report.stalls()[0].reason, HasSubstr("not been heard of for 2.0 s"));
  EXPECT_EQ(report.stalls()[2].task, "ps:0");
  EXPECT_EQ(report.stalls()[2].ended, at(21));
  EXPECT_EQ(report.tasks().at("worker-replica-0").step, 40);
  EXPECT_THAT(report.tasks().at("worker-replica-0").gone, HasSubstr("is gone"));
  chief(30, "generation 3: replicas of master:0 [0, 1), worker:01 [1, 2), worker:0 [2, 3)");
  EXPECT_EQ(report.tasks().at("worker-replica-0").gone, "");
  EXPECT_EQ(report.tasks().at("master-replica-0").last_time, at(30));
}

TEST(ClusterReport, TellsStalenessAndRestarts) {
  ClusterReport report;
  report.take("master-replica-0", at(1),
              "staleness: mean=1.25 of the last 100 updates, max=4 of all, step = 200");
  report.take("service", at(2), "worker:1 failed with status 1: restart 2 of 3 in 500 ms");
  ASSERT_THAT(report.staleness(), SizeIs(1));
  EXPECT_EQ(report.staleness()[0].mean, 1.25);
  EXPECT_EQ(report.staleness()[0].max, 4);
  EXPECT_EQ(report.staleness()[0].step, 200);
  EXPECT_EQ(report.tasks().at("worker-replica-1").restarts, 2);
}

TEST(ClusterReport, MemoryDoesNotGrowWithHostileLogs) {
  ClusterReport report;
  for (int i = 0; i < 5'000; ++i) {
    report.take("worker-replica-" + std::to_string(i), at(i), std::string(10'000, 'x'));
    report.take("master-replica-0", at(i),
                "worker:" + std::to_string(i) + " is gone: " + std::string(10'000, 'x'));
    report.take("master-replica-0", at(i), "generation " + std::to_string(i) + ": replicas of a");
    report.take("master-replica-0", at(i), "generation 99999999999999999999: replicas of a");
    report.take("master-replica-0", at(i), "staleness: mean=nonsense");
  }
  EXPECT_LE(report.tasks().size(), 1000U);
  EXPECT_LE(report.stalls().size(), 500U);
  EXPECT_LE(report.generations().size(), 500U);
  EXPECT_LE(report.stalls().back().reason.size(), 500U);
  EXPECT_THAT(report.staleness(), SizeIs(0));
}

}  // namespace
}  // namespace muster::console
