#include "muster/data/features/image_batch.h"

#include <gmock/gmock.h>
#include <torch/types.h>

namespace muster {
namespace {

TEST(ToBatch, GivesPicturesAndLabelsAsTensorsOfTheSameMemory) {
  ImageBatch images{.count = 2,
                    .channels = 1,
                    .height = 1,
                    .width = 3,
                    .values = {1, 2, 3, 4, 5, 6},
                    .labels = {7, 0}};
  const float* memory = images.values.data();
  const Batch batch = to_batch(std::move(images));
  EXPECT_EQ(batch.size(), 2);
  const at::Tensor& pictures = batch.features.tensor("image");
  EXPECT_EQ(pictures.sizes(), (std::vector<std::int64_t>{2, 1, 1, 3}));
  EXPECT_EQ(pictures.data_ptr<float>(), memory);
  EXPECT_EQ(pictures[1][0][0][2].item<float>(), 6);
  const at::Tensor& labels = batch.labels.tensor(kLabel);
  EXPECT_EQ(labels.sizes(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(labels[0].item<std::int64_t>(), 7);
}

}  // namespace
}  // namespace muster
