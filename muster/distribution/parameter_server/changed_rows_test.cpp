#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "muster/distribution/parameter_server/changed_rows_internal.h"

namespace muster::internal {
namespace {

using ::testing::ElementsAre;

Variables make_variables() {
  Variables variables({{.name = "bias", .shape = {3}},
                       {.name = "words", .shape = {6, 2}, .sparse = true},
                       {.name = "places", .shape = {4, 1}, .sparse = true}});
  const at::Tensor& words = variables.find("words")->value;
  words.copy_(at::arange(12).view({6, 2}));
  return variables;
}

RowGradient touched(const std::vector<std::int64_t>& rows, std::int64_t width) {
  RowGradient gradient = empty_row_gradient(static_cast<std::int64_t>(rows.size()), width);
  gradient.rows.copy_(at::tensor(rows, at::kLong));
  gradient.values.fill_(1);
  return gradient;
}

template <typename T>
std::vector<T> elements(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.data_ptr<T>(), flat.data_ptr<T>() + flat.numel()};
}

TEST(ChangedRows, AreAllThatUpdatesHaveTouchedEachOnceWithTheirValuesNow) {
  const Variables variables = make_variables();
  ChangedRows changed(variables);
  changed.add({touched({1, 4}, 2), {}});
  changed.add({touched({0, 4}, 2), {}});
  variables.find("words")->value[4].fill_(-1);
  const auto rows = changed.take(variables);
  EXPECT_THAT(elements<std::int64_t>(rows[0].rows), ElementsAre(0, 1, 4));
  EXPECT_THAT(elements<float>(rows[0].values), ElementsAre(0, 1, 2, 3, -1, -1));
  EXPECT_TRUE(rows[1].empty());
}

TEST(ChangedRows, AreForgottenOnceTheyAreTakenOrEverythingWasSent) {
  const Variables variables = make_variables();
  ChangedRows changed(variables);
  changed.add({touched({2}, 2), touched({3}, 1)});
  changed.take(variables);
  EXPECT_TRUE(changed.take(variables)[0].empty());
  changed.add({touched({2}, 2), {}});
  EXPECT_THAT(elements<std::int64_t>(changed.take(variables)[0].rows), ElementsAre(2));
  changed.add({{}, touched({1}, 1)});
  changed.clear();
  EXPECT_TRUE(changed.take(variables)[1].empty());
}

}  // namespace
}  // namespace muster::internal
