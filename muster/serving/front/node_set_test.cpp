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
