#include "muster/dataset/shuffle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/shared_block.h"
#include "muster/dataset/drain_internal.h"
#include "muster/records/record.h"

namespace muster {
namespace {

TEST(Shuffle, GivesEveryElementOnceInAnOrderOfTheSeed) {
  const auto all = drain(range(1000));
  auto first = drain(range(1000).shuffle(100, 1));
  EXPECT_NE(first, all);
  EXPECT_EQ(first, drain(range(1000).shuffle(100, 1)));
  EXPECT_NE(first, drain(range(1000).shuffle(100, 2)));
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, all);
}

TEST(Shuffle, NeverGivesAnElementBeforeItIsInTheWindow) {
  const auto values = drain(range(2000).shuffle(50, 3));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_LT(values[i], static_cast<std::int64_t>(i + 50));
  }
}

TEST(Shuffle, MakesANewOrderEveryEpoch) {
  const auto twice = drain(range(100).shuffle(100, 1).repeat(2));
  ASSERT_EQ(twice.size(), 200u);
  EXPECT_FALSE(std::equal(twice.begin(), twice.begin() + 100, twice.begin() + 100));
}

TEST(Shuffle, MixesUniformlyWithinAWindowThatHoldsAll) {
  // Where element 0 of 8 ends up in 8000 epochs: 1000 a place, standard deviation 30.
  const auto values = drain(range(8).shuffle(8, 9).repeat(8000));
  std::vector<int> counts(8);
  for (std::size_t i = 0; i < values.size(); ++i) counts[i % 8] += values[i] == 0 ? 1 : 0;
  for (const int count : counts) EXPECT_NEAR(count, 1000, 180);
}

TEST(Shuffle, GivesTheSameStreamHoweverItIsPulled) {
  const auto one_by_one = drain(range(500).shuffle(64, 4));
  std::vector<std::int64_t> by_batches;
  for (const auto& batch : drain(range(500).shuffle(64, 4).batch(37))) {
    by_batches.insert(by_batches.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(by_batches, one_by_one);
}

TEST(Shuffle, MakesJustTheHeldElementsAgainWhenResumed) {
  std::atomic<int> calls{0};
  const auto dataset = range(10'000)
                           .map([&](std::int64_t value) {
                             ++calls;
                             return value;
                           })
                           .shuffle(100, 7);
  auto iterator = dataset.iterate();
  for (int i = 0; i < 5000; ++i) iterator->next();
  const std::string position = iterator->save();
  calls = 0;
  auto resumed = dataset.iterate(position);
  EXPECT_EQ(calls, 100);
  EXPECT_EQ(drain(*resumed), drain(*iterator));
}

TEST(Shuffle, ResumesFromAnInputThatCanOnlyBeReadAgain) {
  const auto dataset = range(1000).batch(3).shuffle(20, 7);
  auto iterator = dataset.iterate();
  for (int i = 0; i < 100; ++i) iterator->next();
  auto resumed = dataset.iterate(iterator->save());
  EXPECT_EQ(drain(*resumed), drain(*iterator));
}

/// The text of consecutive numbers, as a range of a file has records. Counted while it is there.
std::shared_ptr<const std::string> block_of(std::int64_t first, std::int64_t count,
                                            std::atomic<int>& blocks) {
  auto* const text = new std::string;
  for (std::int64_t i = first; i < first + count; ++i) *text += std::to_string(10'000 + i);
  ++blocks;
  return {text, BlockDeleter{[text, &blocks] {
            delete text;
            --blocks;
          }}};
}

TEST(Shuffle, KeepsRecordsWithoutTheBlocksThatTheyLieIn) {
  std::atomic<int> blocks{0};
  std::shared_ptr<const std::string> block;
  auto records = range(20'000)
                     .map([&](std::int64_t value) {
                       if (value % 100 == 0) block = block_of(value, 100, blocks);
                       const auto at = static_cast<std::size_t>(value % 100) * 5;
                       return Record{std::string_view(*block).substr(at, 5), block};
                     })
                     .shuffle(1000, 5)
                     .iterate();
  std::vector<std::int64_t> values;
  int most = 0;
  while (const auto record = records->next()) {
    values.push_back(std::stoll(std::string(record->bytes)) - 10'000);
    most = std::max(most, blocks.load());
  }
  EXPECT_EQ(values, drain(range(20'000).shuffle(1000, 5)));
  // What is pulled at once, and no more: a thousand records of all that were read lie in some
  // fifty.
  EXPECT_LE(most, 10);
}

TEST(Shuffle, DoesNotCopyRecordsOfAMapping) {
  const auto mapping = std::make_shared<const std::string>("0123456789");
  auto records =
      range(10)
          .map([&](std::int64_t value) {
            return Record{std::string_view(*mapping).substr(static_cast<std::size_t>(value), 1),
                          mapping};
          })
          .shuffle(4, 5)
          .iterate();
  while (const auto record = records->next()) {
    EXPECT_GE(record->bytes.data(), mapping->data());
    EXPECT_LT(record->bytes.data(), mapping->data() + mapping->size());
  }
}

TEST(Shuffle, RefusesAnEmptyBuffer) { EXPECT_THROW(range(3).shuffle(0, 1), InvalidArgument); }

}  // namespace
}  // namespace muster
