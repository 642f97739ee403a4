#include "muster/data/features/text_batch.h"

#include <gmock/gmock.h>
#include <torch/types.h>

namespace muster {
namespace {

TEST(ToBatch, GivesTextsAndLabelsAsBertReadsThem) {
  TextBatch texts{.count = 2,
                  .length = 3,
                  .ids = {2, 7, 3, 2, 3, 0},
                  .mask = {1, 1, 1, 1, 1, 0},
                  .token_types = {0, 0, 1, 0, 0, 0},
                  .labels = {1, 0}};
  const std::int64_t* memory = texts.ids.data();
  const Batch batch = to_batch(std::move(texts));
  EXPECT_EQ(batch.size(), 2);
  const at::Tensor& ids = batch.features.tensor("input_ids");
  EXPECT_EQ(ids.data_ptr<std::int64_t>(), memory);
  EXPECT_TRUE(at::equal(ids, torch::tensor({{2, 7, 3}, {2, 3, 0}})));
  EXPECT_TRUE(
      at::equal(batch.features.tensor("attention_mask"), torch::tensor({{1, 1, 1}, {1, 1, 0}})));
  EXPECT_TRUE(
      at::equal(batch.features.tensor("token_type_ids"), torch::tensor({{0, 0, 1}, {0, 0, 0}})));
  EXPECT_TRUE(at::equal(batch.labels.tensor(kLabel), torch::tensor({{1}, {0}})));
}

}  // namespace
}  // namespace muster
