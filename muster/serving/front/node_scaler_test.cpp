#include "muster/serving/front/node_scaler.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// A scaler that sees a sample each half second.
class Scaling {
 public:
  explicit Scaling(const ScalingOptions& options) : scaler_(options) {}

  std::size_t after(double in_flight, milliseconds queue_time, std::size_t nodes,
                    std::size_t waiting = 0) {
    time_ += milliseconds(500);
    return scaler_.target({.time = time_,
                           .in_flight = in_flight,
                           .queue_time = queue_time,
                           .waiting = waiting,
                           .nodes = nodes});
  }

 private:
  NodeScaler scaler_;
  std::chrono::steady_clock::time_point time_{};
};

constexpr ScalingOptions kZeroToFour{
    .min_nodes = 0, .max_nodes = 4, .slots_per_node = 2, .cool_down = milliseconds(2000)};

TEST(NodeScaler, AddsNodesWhileRequestsWaitAtMostDoublingThem) {
  Scaling scaling(kZeroToFour);
  EXPECT_EQ(scaling.after(1, milliseconds(0), 1), 1U);
  EXPECT_EQ(scaling.after(6, milliseconds(21), 1), 2U);
  EXPECT_EQ(scaling.after(40, milliseconds(500), 2), 4U);
  EXPECT_EQ(scaling.after(400, milliseconds(5000), 4), 4U);  // The most.
}

TEST(NodeScaler, BusyNodesWithoutAQueueAreEnough) {
  Scaling scaling(kZeroToFour);
  EXPECT_EQ(scaling.after(9, milliseconds(3), 2), 2U);
}

TEST(NodeScaler, EndsNodesAfterACoolDownOnly) {
  Scaling scaling(kZeroToFour);
  EXPECT_EQ(scaling.after(40, milliseconds(500), 2), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(scaling.after(3, milliseconds(0), 4), 4U);
  EXPECT_EQ(scaling.after(3, milliseconds(0), 4), 2U);  // Three requests need two of two slots.
  // A peak that is short keeps them for as long again.
  EXPECT_EQ(scaling.after(3, milliseconds(30), 2), 3U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(scaling.after(0.1, milliseconds(0), 3), 3U);
  EXPECT_EQ(scaling.after(0.1, milliseconds(0), 3), 1U);
}

TEST(NodeScaler, GoesToZeroAndBack) {
  Scaling scaling(kZeroToFour);
  EXPECT_EQ(scaling.after(1, milliseconds(0), 1), 1U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(scaling.after(0, milliseconds(0), 1), 1U);
  EXPECT_EQ(scaling.after(0, milliseconds(0), 1), 0U);
  EXPECT_EQ(scaling.after(0, milliseconds(0), 0), 0U);
  EXPECT_EQ(scaling.after(0, milliseconds(0), 0, /*waiting=*/1), 1U);
}

TEST(NodeScaler, KeepsNodesThatHaveJustStartedForACoolDown) {
  Scaling scaling(kZeroToFour);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(scaling.after(0, milliseconds(0), 1), 1U);
  EXPECT_EQ(scaling.after(0, milliseconds(0), 1), 0U);
}

TEST(NodeScaler, KeepsTheLeast) {
  ScalingOptions options = kZeroToFour;
  options.min_nodes = 3;
  Scaling scaling(options);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(scaling.after(0, milliseconds(0), 3), 3U);
}

TEST(NodeScaler, RefusesBoundsThatCannotBeKept) {
  EXPECT_THROW(NodeScaler({.min_nodes = 3, .max_nodes = 2}), InvalidArgument);
  EXPECT_THROW(NodeScaler({.min_nodes = 0, .max_nodes = 0}), InvalidArgument);
}

}  // namespace
}  // namespace muster::serving
