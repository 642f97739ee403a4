#include "muster/data/dataset/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Dataset<std::int64_t> by_reading(std::uint64_t count) {
  return generate([count](std::uint64_t i) {
    return i < count ? std::optional(static_cast<std::int64_t>(i)) : std::nullopt;
  });
}

TEST(Shard, GivesEveryNthElementByAccessAndByReading) {
  EXPECT_THAT(drain(range(8).shard(3, 1)), ElementsAre(1, 4, 7));
  EXPECT_THAT(drain(by_reading(8).shard(3, 1)), ElementsAre(1, 4, 7));
  EXPECT_THAT(drain(by_reading(8).shard(3, 2)), ElementsAre(2, 5));
  EXPECT_THAT(drain(by_reading(2).shard(5, 4)), IsEmpty());
  EXPECT_EQ(range(8).shard(3, 2).size(), 2u);
}

TEST(Shard, ShardsOfAShardAreParts) {
  EXPECT_THAT(drain(range(12).shard(2, 1).shard(3, 2)), ElementsAre(5, 11));
  EXPECT_THAT(drain(by_reading(12).shard(2, 1).shard(3, 2)), ElementsAre(5, 11));
}

TEST(Shard, GoesThroughParallelMapAndPrefetch) {
  const auto dataset = range(9)
                           .map([](std::int64_t value) { return value * 2; }, {.parallelism = 2})
                           .prefetch(2)
                           .shard(3, 0);
  EXPECT_THAT(drain(dataset), ElementsAre(0, 6, 12));
}

TEST(Shard, ResumesByReadingWhatWasSavedByAccessAndTheOtherWayRound) {
  // An index may be made or removed between two runs.
  EpochContext context;
  const auto source = range(20).stage();
  const ShardOf part{3, 2};
  const auto access = [&] {
    return std::make_unique<ShardByAccess<std::int64_t>>(
        part, context, stride_access(source->random_access(context), 2, 3).access);
  };
  const auto reading = [&] {
    return std::make_unique<ShardByReading<std::int64_t>>(part, context, source->open(context));
  };
  const auto third = [](StageIterator<std::int64_t>& from, StageIterator<std::int64_t>& to) {
    Chunk<std::int64_t> chunk;
    from.pull(chunk, 2);
    PositionWriter writer;
    from.save(writer);
    const std::string bytes = writer.encode();
    PositionReader reader = PositionReader::open(bytes);
    to.restore(reader);
    reader.finish();
    to.pull(chunk, 1);
    return chunk.elements().at(0).value;
  };
  EXPECT_EQ(third(*access(), *reading()), 8);
  EXPECT_EQ(third(*reading(), *access()), 8);
  EXPECT_EQ(third(*reading(), *reading()), 8);
}

TEST(Shard, RefusesAPartThatDoesNotExist) {
  EXPECT_THROW(range(3).shard(0, 0), InvalidArgument);
  EXPECT_THROW(range(3).shard(2, 2), InvalidArgument);
}

}  // namespace
}  // namespace muster
