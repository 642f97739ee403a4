#include "muster/train/engine/tree_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "muster/base/random.h"

namespace muster {
namespace {

// Adding strings shows the order: "(01)" is 0 + 1.
std::optional<std::string> tree(std::int64_t replicas, const std::vector<std::int64_t>& order,
                                const std::vector<std::int64_t>& absent = {}) {
  TreeSum<std::string> sum(
      replicas, [](std::string& into, std::string&& from) { into = "(" + into + from + ")"; });
  for (const auto replica : order) {
    EXPECT_FALSE(sum.complete());
    const bool missing = std::find(absent.begin(), absent.end(), replica) != absent.end();
    sum.report(replica, missing ? std::nullopt : std::optional(std::to_string(replica)));
  }
  EXPECT_TRUE(sum.complete());
  EXPECT_EQ(sum.present(), replicas - static_cast<std::int64_t>(absent.size()));
  return sum.take();
}

TEST(TreeSum, LeftPartIsTheLargestPowerOfTwo) {
  EXPECT_EQ(tree(1, {0}), "0");
  EXPECT_EQ(tree(2, {0, 1}), "(01)");
  EXPECT_EQ(tree(3, {0, 1, 2}), "((01)2)");
  EXPECT_EQ(tree(5, {0, 1, 2, 3, 4}), "(((01)(23))4)");
  EXPECT_EQ(tree(7, {0, 1, 2, 3, 4, 5, 6}), "(((01)(23))((45)6))");
}

TEST(TreeSum, DoesNotDependOnTheOrderOfReports) {
  for (std::int64_t replicas = 1; replicas <= 12; ++replicas) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(replicas));
    std::iota(order.begin(), order.end(), 0);
    const auto expected = tree(replicas, order);
    for (std::uint64_t key = 0; key < 30; ++key) {
      const Permutation permutation(static_cast<std::uint64_t>(replicas), key);
      for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = static_cast<std::int64_t>(permutation(i));
      }
      EXPECT_EQ(tree(replicas, order), expected);
    }
  }
}

TEST(TreeSum, AnAbsentReplicaIsAnAbsentLeaf) {
  EXPECT_EQ(tree(4, {3, 0, 2, 1}, {1}), "(0(23))");
  EXPECT_EQ(tree(4, {0, 1, 2, 3}, {0, 1}), "(23)");
  EXPECT_EQ(tree(2, {0, 1}, {0, 1}), std::nullopt);
}

}  // namespace
}  // namespace muster
