#include "muster/distribution/collective/shard_layout_internal.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <vector>

namespace muster::internal {
namespace {

/// The kernel's rows end within cache lines, the table's do not.
Variables kernel_and_table() {
  return Variables({{.name = "bias", .shape = {5}},
                    {.name = "kernel", .shape = {1000, 90}},
                    {.name = "mean", .shape = {7}, .trainable = false},
                    {.name = "scale", .shape = {}},
                    {.name = "table", .shape = {1024, 256}}});
}

std::vector<std::size_t> order_of(std::size_t tasks) {
  return halving_of(std::vector<GenerationMember>(tasks), 0).order;
}

TEST(ShardLayout, GivesEveryElementToOneTaskInTheOrderOfHalving) {
  const Variables variables = kernel_and_table();
  for (const std::size_t tasks : {1U, 2U, 3U, 8U, 40U}) {
    const std::vector<std::size_t> order = order_of(tasks);
    const ShardLayout layout(variables, order);
    std::int64_t next = 0;
    for (std::size_t place = 0; place < tasks; ++place) {
      EXPECT_EQ(layout.of(order[place]).first, next);
      next = layout.of(order[place]).last;
      EXPECT_EQ(layout.at_places({0, place + 1}), (FlatRange{0, next}));
    }
    EXPECT_EQ(next, variables.flat().numel());
    EXPECT_EQ(layout.size(), next);
  }
}

TEST(ShardLayout, CutsVariablesBetweenRowsAsEvenlyAsThatAllows) {
  const Variables variables = kernel_and_table();
  for (const std::size_t tasks : {2U, 4U, 7U}) {
    const ShardLayout layout(variables, order_of(tasks));
    for (std::size_t rank = 0; rank < tasks; ++rank) {
      const FlatRange range = layout.of(rank);
      // Eight rows of the kernel are the largest piece that is not cut.
      const std::int64_t even = layout.size() / static_cast<std::int64_t>(tasks);
      EXPECT_LE(std::abs(range.last - range.first - even), 8 * 90);
      for (const Variable& variable : variables.all()) {
        const FlatRange held = variable.dense() ? elements_in(variable, range) : FlatRange{};
        if (held == FlatRange{}) continue;
        const std::int64_t width = variable.value.dim() == 2 ? variable.value.size(1) : 1;
        EXPECT_EQ(held.first % width, 0) << variable.spec.name;
        EXPECT_EQ((variable.offset + held.first) % kVariableAlignment, 0) << variable.spec.name;
      }
    }
  }
}

TEST(ShardLayout, LeavesWholeVariablesWhole) {
  const Variables variables({{.name = "bias", .shape = {5}},
                             {.name = "whole", .shape = {100, 90}, .whole = true},
                             {.name = "small", .shape = {3, 3}, .whole = true},
                             {.name = "table", .shape = {100, 64}}});
  for (const std::size_t tasks : {2U, 3U, 7U}) {
    const ShardLayout layout(variables, order_of(tasks));
    for (std::size_t rank = 0; rank < tasks; ++rank) {
      for (const Variable& variable : variables.all()) {
        if (!variable.spec.whole) continue;
        const FlatRange held = elements_in(variable, layout.of(rank));
        if (held == FlatRange{}) continue;
        EXPECT_EQ(held, (FlatRange{0, variable.value.numel()})) << variable.spec.name;
      }
    }
  }
}

TEST(ShardLayout, TakesSizesByRank) {
  const std::vector<std::int64_t> sizes{5, 0, 7};
  const std::vector<std::size_t> order{2, 0, 1};
  const ShardLayout layout(sizes, order);
  EXPECT_EQ(layout.of(0), (FlatRange{7, 12}));
  EXPECT_EQ(layout.of(1), (FlatRange{12, 12}));
  EXPECT_EQ(layout.of(2), (FlatRange{0, 7}));
  EXPECT_EQ(layout.of(RankRange{0, 2}), (FlatRange{7, 12}));
}

}  // namespace
}  // namespace muster::internal
