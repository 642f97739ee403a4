#include "muster/train/engine/batch_prefetcher.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/train/engine/replica_inputs.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

Batch batch_of(std::int64_t number) {
  return Batch{.features = {{"x", at::full({1}, number, at::kLong)}}};
}

std::int64_t number_of(const std::optional<Batch>& batch) {
  return batch ? batch->features.tensor("x").item<std::int64_t>() : -1;
}

Dataset<Batch> four_batches() { return range(4).map(batch_of); }

Batch plus_hundred(const Batch& batch) { return batch_of(number_of(batch) + 100); }

TEST(BatchPrefetcher, GivesWhatTheInputGivesPrepared) {
  BatchPrefetcher input(four_batches().iterate(), plus_hundred);
  for (const std::int64_t expected : {100, 101, 102, 103, -1, -1}) {
    EXPECT_EQ(number_of(input.next()), expected);
  }
}

TEST(BatchPrefetcher, IsPlacedBehindWhatItGave) {
  BatchPrefetcher input(four_batches().iterate(), plus_hundred);
  for (const std::int64_t next : {0, 1, 2, 3, -1}) {
    EXPECT_EQ(number_of(four_batches().iterate(input.save())->next()), next);
    input.next();
  }
}

TEST(BatchPrefetcher, ThrowsWhatItMetInItsTurn) {
  const auto broken = range(4).map([](std::int64_t number) {
    if (number == 1) throw DataLoss("a broken picture");
    return batch_of(number);
  });
  BatchPrefetcher input(broken.iterate(), plus_hundred);
  EXPECT_EQ(number_of(input.next()), 100);
  EXPECT_THAT(message_of([&] { input.next(); }), HasSubstr("a broken picture"));
  EXPECT_EQ(number_of(input.next()), 102);
}

TEST(BatchPrefetcher, SaysThatItHasNoPlace) {
  const Dataset<Batch> sealed = from_generator(
      [] { return [n = 0]() mutable { return std::optional<Batch>(batch_of(n++)); }; });
  BatchPrefetcher input(sealed.iterate(), plus_hundred);
  EXPECT_THROW(static_cast<void>(input.save()), FailedPrecondition);
  EXPECT_EQ(number_of(input.next()), 100);
  EXPECT_THROW(static_cast<void>(input.save()), FailedPrecondition);
}

TEST(BatchPrefetcher, TakesOneBatchAheadAndNoMore) {
  auto taken = std::make_shared<std::atomic<int>>(0);
  const auto counted = range(9).map([taken](std::int64_t number) {
    taken->fetch_add(1);
    return batch_of(number);
  });
  {
    BatchPrefetcher input(counted.iterate(), plus_hundred);
    EXPECT_EQ(number_of(input.next()), 100);
    EXPECT_EQ(number_of(input.next()), 101);
  }
  EXPECT_LE(taken->load(), 3);
}

TEST(ReplicaInputs, ArePreparedAndKeepTheirPositions) {
  const auto input_of = [](const InputContext&) { return four_batches(); };
  ReplicaInputs inputs(input_of, 1, 1, plus_hundred);
  inputs.resume({}, 0);
  inputs.open({0, 1}, 0);
  EXPECT_TRUE(inputs.fetch({0, 1}));
  EXPECT_EQ(number_of(inputs.batches()[0]), 100);
  const InputPositions behind = inputs.positions_now({0, 1});
  inputs.use_up();
  EXPECT_TRUE(inputs.fetch({0, 1}));
  EXPECT_EQ(number_of(inputs.batches()[0]), 101);
  EXPECT_EQ(number_of(four_batches().iterate(*behind[0])->next()), 1);
}

}  // namespace
}  // namespace muster
