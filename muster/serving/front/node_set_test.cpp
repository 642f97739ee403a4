#include "muster/serving/front/node_set.h"

#include <gtest/gtest.h>

#include <map>

namespace muster::serving {
namespace {

std::shared_ptr<Node> node(int number, std::size_t in_flight = 0) {
  auto out = std::make_shared<Node>(number, loopback_address(1));
  out->in_flight = in_flight;
  return out;
}

TEST(NodeSet, SpreadsRequestsSoThatNoNodeIsFarAheadOfAnother) {
  NodeSet nodes(1);
  std::vector<std::shared_ptr<Node>> all{node(0), node(1), node(2), node(3)};
  for (const auto& one : all) nodes.add(one);
  for (int i = 0; i < 4000; ++i) ASSERT_NE(nodes.choose(nullptr), nullptr);
  // Each got a quarter: by chance alone they would differ by a hundred.
  for (const auto& one : all) EXPECT_NEAR(static_cast<double>(one->in_flight), 1000, 5);
}

TEST(NodeSet, LeavesANodeThatIsFarBehindAlone) {
  NodeSet nodes(1);
  const auto slow = node(0, 100);
  nodes.add(slow);
  nodes.add(node(1));
  nodes.add(node(2));
  for (int i = 0; i < 90; ++i) EXPECT_NE(nodes.choose(nullptr), slow);
}

TEST(NodeSet, ANodeThatHasBecomeSlowGetsRequestsOnlyWhereOthersHaveMany) {
  NodeSet nodes(1);
  const auto slow = node(0);
  const auto fast = node(1);
  for (int i = 0; i < 100; ++i) {
    slow->note_latency(std::chrono::milliseconds(100));
    fast->note_latency(std::chrono::milliseconds(10));
  }
  nodes.add(slow);
  nodes.add(fast);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(nodes.choose(nullptr), fast);
  fast->in_flight = 20;
  EXPECT_EQ(nodes.choose(nullptr), slow);
  // It is used again soon after it is as fast as the other.
  fast->in_flight = 1;
  slow->in_flight = 0;
  for (int i = 0; i < 10; ++i) slow->note_latency(std::chrono::milliseconds(10));
  EXPECT_EQ(nodes.choose(nullptr), slow);
}

TEST(NodeSet, NeverGivesTheNodeThatIsNotWanted) {
  NodeSet nodes(1);
  const auto failed = node(0);
  EXPECT_EQ(nodes.choose(nullptr), nullptr);
  nodes.add(failed);
  EXPECT_EQ(nodes.choose(failed.get()), nullptr);
  EXPECT_EQ(nodes.choose(nullptr), failed);
  const auto other = node(1, 50);
  nodes.add(other);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(nodes.choose(failed.get()), other);
  nodes.remove(*other);
  EXPECT_FALSE(nodes.contains(*other));
  EXPECT_EQ(nodes.choose(failed.get()), nullptr);
}

}  // namespace
}  // namespace muster::serving
