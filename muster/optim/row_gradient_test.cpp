#include "muster/optim/row_gradient.h"

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
