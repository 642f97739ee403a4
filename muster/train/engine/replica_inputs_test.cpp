#include "muster/train/engine/replica_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Batches of one number each: 100 * replica + 0, 1, 2, ..., 5.
Dataset<Batch> numbers(const InputContext& in) {
  const auto replica = static_cast<std::int64_t>(in.shard_index());
  return range(6).map([replica](std::int64_t number) {
    return Batch{.features = {{"x", at::full({1}, 100 * replica + number, at::kLong)}}};
  });
}

/// They cannot be resumed.
Dataset<Batch> sealed_numbers(const InputContext& in) {
  return from_generator([in] {
    auto input = std::shared_ptr<Iterator<Batch>>(numbers(in).iterate());
    return [input] { return input->next(); };
  });
}

/// Numbers of the batches in hand, -1 for none.
std::vector<std::int64_t> in_hand(ReplicaInputs& inputs) {
  std::vector<std::int64_t> numbers;
  for (const auto& batch : inputs.batches()) {
    numbers.push_back(batch ? batch->features.tensor("x").item<std::int64_t>() : -1);
  }
  return numbers;
}

RunState saved_with(const ReplicaInputs& inputs) {
  return {.replicas = 2, .inputs = inputs.positions(), .input_obstacle = inputs.obstacle()};
}

TEST(ReplicaInputs, KeepABatchInHandUntilItIsUsed) {
  ReplicaInputs inputs(numbers, 2, 1);
  inputs.resume({}, 0);
  inputs.open({0, 2}, 0);
  EXPECT_TRUE(inputs.fetch({0, 2}));
  EXPECT_TRUE(inputs.fetch({0, 2}));
  EXPECT_THAT(in_hand(inputs), ElementsAre(0, 100));
  inputs.use_up();
  EXPECT_TRUE(inputs.fetch({0, 2}));
  EXPECT_THAT(in_hand(inputs), ElementsAre(1, 101));
}

TEST(ReplicaInputs, GoOnFromTheirPositions) {
  ReplicaInputs inputs(numbers, 2, 1);
  inputs.resume({}, 0);
  inputs.open({0, 2}, 0);
  inputs.fetch({0, 2});
  inputs.use_up();
  inputs.refresh_positions({0, 2});
  ReplicaInputs resumed(numbers, 2, 1);
  resumed.resume(saved_with(inputs), 1);
  resumed.open({0, 2}, 1);
  EXPECT_TRUE(resumed.fetch({0, 2}));
  EXPECT_THAT(in_hand(resumed), ElementsAre(1, 101));
}

TEST(ReplicaInputs, APositionIsNotBehindABatchThatIsStillInHand) {
  ReplicaInputs inputs(numbers, 2, 1);
  inputs.resume({}, 0);
  inputs.open({0, 2}, 0);
  inputs.fetch({0, 2});
  inputs.use_up();
  inputs.refresh_positions({0, 2});
  const InputPositions after_one = inputs.positions();
  inputs.fetch({0, 2});
  inputs.refresh_positions({0, 2});
  EXPECT_EQ(inputs.positions(), after_one);
  // As others are to know it, once the step is made.
  EXPECT_NE(inputs.positions_now({0, 2}), after_one);
  EXPECT_EQ(inputs.positions_now({0, 1})[0], inputs.positions_now({0, 2})[0]);
  EXPECT_FALSE(inputs.positions_now({0, 1})[1]) << "the process that runs it tells";
}

TEST(ReplicaInputs, WithoutAPositionReadAgainWhatOthersTook) {
  ReplicaInputs inputs(numbers, 2, 1);
  inputs.resume({}, 10);
  inputs.open({1, 2}, 13);
  EXPECT_TRUE(inputs.fetch({1, 2}));
  EXPECT_THAT(in_hand(inputs), ElementsAre(-1, 103));
}

TEST(ReplicaInputs, ThoseOfReplicasThatOthersRunNowAreClosed) {
  ReplicaInputs inputs(numbers, 2, 1);
  inputs.resume({}, 0);
  inputs.open({0, 2}, 0);
  inputs.fetch({0, 2});
  inputs.open({0, 1}, 0);
  EXPECT_THAT(in_hand(inputs), ElementsAre(0, -1));
  // It begins where its position says, which is nowhere: at the beginning.
  inputs.open({0, 2}, 0);
  inputs.fetch({0, 2});
  EXPECT_THAT(in_hand(inputs), ElementsAre(0, 100));
}

TEST(ReplicaInputs, SayWhyTheyCannotBeResumed) {
  ReplicaInputs inputs(sealed_numbers, 1, 1);
  inputs.resume({}, 0);
  inputs.open({0, 1}, 0);
  inputs.fetch({0, 1});
  inputs.use_up();
  inputs.refresh_positions({0, 1});
  EXPECT_FALSE(inputs.positions()[0]);
  EXPECT_NE(inputs.obstacle(), "");
}

TEST(ReplicaInputs, EndWhenNoneHasABatch) {
  ReplicaInputs inputs(numbers, 1, 1);
  inputs.resume({}, 0);
  inputs.open({0, 1}, 0);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(inputs.fetch({0, 1}));
    inputs.use_up();
  }
  EXPECT_FALSE(inputs.fetch({0, 1}));
}

TEST(ReplicaInputs, AnErrorNamesTheReplica) {
  ReplicaInputs inputs(
      [](const InputContext&) -> Dataset<Batch> { throw NotFound("no such file"); }, 1, 1);
  inputs.resume({}, 0);
  EXPECT_THAT(testing::message_of([&] {
                inputs.open({0, 1}, 0);
              }),
              HasSubstr("opening the input of replica 0"));
}

}  // namespace
}  // namespace muster
