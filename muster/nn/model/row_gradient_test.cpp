#include "muster/nn/model/row_gradient.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "muster/base/error.h"

namespace muster {
namespace {

TEST(SumRows, SortsRowsAndAddsEqualOnesInBatchOrder) {
  // In this order 1e8 - 1e8 leaves the 1; in another the 1 is lost.
  const RowGradient sum =
      sum_rows(torch::tensor({5, 2, 5, 5}, at::kLong),
               torch::tensor({1e8f, 3.0f, -1e8f, 1.0f}).view({4, 1}), 10, "table");
  EXPECT_TRUE(at::equal(sum.rows, torch::tensor({2, 5}, at::kLong)));
  EXPECT_TRUE(at::equal(sum.values, torch::tensor({3.0f, 1.0f}).view({2, 1})));
}

TEST(SumRows, IsEmptyForAnEmptyBatch) {
  EXPECT_TRUE(sum_rows(at::empty({0}, at::kLong), at::empty({0, 3}), 10, "table").empty());
}

TEST(SumRows, RefusesRowsOutsideTheTable) {
  const at::Tensor values = at::ones({1, 2});
  EXPECT_THROW(sum_rows(torch::tensor({10}, at::kLong), values, 10, "table"), OutOfRange);
  EXPECT_THROW(sum_rows(torch::tensor({-1}, at::kLong), values, 10, "table"), OutOfRange);
  EXPECT_THROW(sum_rows(torch::tensor({1, 2}, at::kLong), values, 10, "table"), InvalidArgument);
}

TEST(SumRows, GivesTheSameSumsForAnySizeOfBatchAndTable) {
  // Small and large batches and tables are sorted in different ways.
  for (const std::int64_t row_count : {50, 3000, 5'000'000}) {
    for (const std::int64_t count : {7, 300, 4000}) {
      const auto rows = (torch::arange(count) * 7919 % 613) * 104'729 % row_count;
      const auto values = torch::arange(2 * count, at::kFloat).sin().view({count, 2});
      const RowGradient sum = sum_rows(rows, values, row_count, "table");
      check_row_gradient(sum, row_count, 2, "table");
      const auto dense = torch::zeros({row_count, 2}).index_add(0, rows, values);
      EXPECT_TRUE(at::equal(dense.index_select(0, sum.rows), sum.values));
      EXPECT_EQ(sum.rows.numel(), std::get<0>(at::_unique(rows)).numel());
    }
  }
}

TEST(AddRows, AddsRowsOfBothAndKeepsTheOthers) {
  const RowGradient left{torch::tensor({1, 4, 9}, at::kLong),
                         torch::tensor({1.0f, 2.0f, 3.0f}).view({3, 1})};
  const RowGradient right{torch::tensor({0, 4, 7, 9, 12}, at::kLong),
                          torch::tensor({5.0f, 6.0f, 7.0f, 8.0f, 9.0f}).view({5, 1})};
  const RowGradient sum = add_rows(left, right);
  EXPECT_TRUE(at::equal(sum.rows, torch::tensor({0, 1, 4, 7, 9, 12}, at::kLong)));
  EXPECT_TRUE(
      at::equal(sum.values, torch::tensor({5.0f, 1.0f, 8.0f, 7.0f, 11.0f, 9.0f}).view({6, 1})));
  EXPECT_TRUE(add_rows({}, left).rows.is_same(left.rows));
  EXPECT_TRUE(add_rows(left, {}).rows.is_same(left.rows));
  EXPECT_TRUE(add_rows({}, {}).empty());
}

TEST(CheckRowGradient, RefusesWhatIsNoGradientOfTheTable) {
  const at::Tensor values = at::ones({2, 3});
  check_row_gradient({}, 10, 3, "table");
  check_row_gradient({torch::tensor({1, 4}, at::kLong), values}, 10, 3, "table");
  EXPECT_THROW(check_row_gradient({torch::tensor({4, 1}, at::kLong), values}, 10, 3, "table"),
               InvalidArgument);
  EXPECT_THROW(check_row_gradient({torch::tensor({1, 1}, at::kLong), values}, 10, 3, "table"),
               InvalidArgument);
  EXPECT_THROW(check_row_gradient({torch::tensor({1, 4}, at::kLong), values}, 10, 4, "table"),
               InvalidArgument);
  EXPECT_THROW(check_row_gradient({torch::tensor({1, 4}, at::kLong), values}, 4, 3, "table"),
               OutOfRange);
}

}  // namespace
}  // namespace muster
