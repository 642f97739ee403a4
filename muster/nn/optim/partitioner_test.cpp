#include "muster/nn/optim/partitioner.h"

#include <gmock/gmock.h>

#include "muster/base/error.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using Shape = std::vector<std::int64_t>;

TEST(Partitioner, MinMaxCutsSlicesThatAreNotTooSmall) {
  const MinMaxPartitions rule{.max_partitions = 100, .min_slice_bytes = 256 << 10};
  EXPECT_EQ(partition(rule, Shape{1024, 1024}, 4), std::vector<std::int64_t>(16, 64));
  EXPECT_THAT(partition(rule, Shape{10, 4}, 4), ElementsAre(10));
  EXPECT_THAT(
      partition(MinMaxPartitions{.max_partitions = 3, .min_slice_bytes = 1}, Shape{10, 4}, 4),
      ElementsAre(4, 3, 3));
  EXPECT_THAT(partition(MinMaxPartitions{.max_partitions = 5, .axis = 1, .min_slice_bytes = 1},
                        Shape{10, 2}, 4),
              ElementsAre(1, 1));
}

TEST(Partitioner, FixedSizeAndAxisSize) {
  EXPECT_THAT(partition(FixedSizePartitions{.parts = 4}, Shape{3, 9}, 4), ElementsAre(1, 1, 1));
  EXPECT_THAT(partition(AxisSizePartitions{.max_part_bytes = 100}, Shape{10, 8}, 4),
              ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(partition(AxisSizePartitions{.max_part_bytes = 1, .max_parts = 2}, Shape{10, 8}, 4),
              ElementsAre(5, 5));
}

TEST(Partitioner, RefusesWhatCannotBeCut) {
  EXPECT_THROW(partition(FixedSizePartitions{}, Shape{}, 4), InvalidArgument);
  EXPECT_THROW(partition(FixedSizePartitions{.parts = 0}, Shape{3}, 4), InvalidArgument);
  EXPECT_THROW(partition(MinMaxPartitions{.axis = 1}, Shape{3}, 4), InvalidArgument);
}

TEST(Partitioner, DoesNotSplitTheLargestTableOfTheCensusModel) {
  const PartitionRules rules = canned_partition_rules(4);
  const auto parts = [&](std::string_view name, const Shape& shape) {
    return partition(*find_rule(rules, name), shape, 4).size();
  };
  EXPECT_EQ(parts("linear/linear_model/age_bucketized_X_occupation_X_race/weights", {1'000'000, 1}),
            1u);
  EXPECT_EQ(parts("linear/linear_model/large/weights", {40'000'000, 1}), 3u);
  EXPECT_EQ(parts("dnn/input_from_feature_columns/input_layer/c/embedding_weights", {100'000, 64}),
            1u);
  EXPECT_EQ(parts("dnn/hiddenlayer_0/kernel", {1024, 1024}), 4u);
  EXPECT_EQ(find_rule(rules, "baseline/bias"), nullptr);
}

}  // namespace
}  // namespace muster
