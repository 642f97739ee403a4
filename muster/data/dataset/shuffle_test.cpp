#include "muster/data/dataset/shuffle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/shared_block.h"
#include "muster/data/dataset/drain_internal.h"
#include "muster/data/records/record.h"

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
  // Blocks of the records pulled at once, and no more: a thousand records of all that were read lie
  // in some fifty.
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

/// As `range`, but only its passes tell what is in it.
Dataset<std::int64_t> numbers_to_read(std::uint64_t count) {
  return generate([count](std::uint64_t i) {
    return i < count ? std::optional(static_cast<std::int64_t>(i)) : std::nullopt;
  });
}

template <typename Value>
std::vector<Value> every_nth(const std::vector<Value>& all, const ShardOf& part) {
  std::vector<Value> some;
  for (std::size_t i = part.index; i < all.size(); i += part.count) some.push_back(all[i]);
  return some;
}

TEST(Shuffle, HasTheSamePartsWhereElementsAreKnownAndWhereTheyAreRead) {
  for (const std::uint64_t size : {0, 1, 2, 5, 16, 17, 40, 101}) {
    for (const std::size_t buffer : {1, 2, 7, 16, 200}) {
      const auto all = drain(numbers_to_read(size).shuffle(buffer, 5));
      for (const ShardOf part : {ShardOf{1, 0}, {2, 1}, {3, 0}, {7, 6}, {64, 3}}) {
        SCOPED_TRACE(fmt::format("{} {} {}/{}", size, buffer, part.index, part.count));
        const auto read = numbers_to_read(size).shuffle(buffer, 5).shard(part.count, part.index);
        const auto known = range(size).shuffle(buffer, 5).shard(part.count, part.index);
        ASSERT_EQ(drain(known), every_nth(all, part));
        ASSERT_EQ(drain(known.repeat(3)), drain(read.repeat(3)));
        ASSERT_EQ(drain(known.batch(4)), drain(read.batch(4)));
      }
    }
  }
}

TEST(Shuffle, MakesOnlyTheElementsOfAPartWhereTheyAreKnown) {
  /// Counts how often it is copied.
  struct Counted {
    explicit Counted(std::atomic<int>& counter) : copies(&counter) {}
    Counted(const Counted& other) : copies(other.copies) { ++*copies; }
    Counted(Counted&&) = default;
    Counted& operator=(const Counted&) = delete;
    Counted& operator=(Counted&&) = default;
    ~Counted() = default;
    std::atomic<int>* copies;
  };
  std::atomic<int> copies{0};
  std::vector<Counted> values;
  values.reserve(640);
  for (int i = 0; i < 640; ++i) values.emplace_back(copies);
  const auto part = from_vector(std::move(values)).shuffle(100, 1).shard(64, 5);
  copies = 0;
  auto iterator = part.iterate();
  int given = 0;
  while (iterator->next()) ++given;
  EXPECT_EQ(given, 10);
  EXPECT_EQ(copies, 10);
}

/// A part of a shuffle, in either of the two ways.
struct Parts {
  std::shared_ptr<const Stage<std::int64_t>> shuffle;
  ShardOf part{};
  EpochContext context{.epoch = 3};

  std::unique_ptr<StageIterator<std::int64_t>> open(bool known) const {
    if (known) return shuffle->open_shard(context, part);
    return std::make_unique<ShardByReading<std::int64_t>>(part, context,
                                                          shuffle->open(context.input()));
  }
};

std::vector<std::int64_t> pull_up_to(StageIterator<std::int64_t>& from, std::size_t most) {
  std::vector<std::int64_t> values;
  for (Chunk<std::int64_t> chunk;
       values.size() < most && from.pull(chunk, most - values.size()) > 0;) {
    for (const auto& element : chunk.elements()) {
      EXPECT_EQ(element.origin, (Origin{3, static_cast<std::uint64_t>(element.value)}));
      values.push_back(element.value);
    }
  }
  return values;
}

std::string saved(const StageIterator<std::int64_t>& iterator) {
  PositionWriter writer;
  iterator.save(writer);
  return writer.encode();
}

void restore(StageIterator<std::int64_t>& iterator, const std::string& position) {
  PositionReader reader = PositionReader::open(position);
  iterator.restore(reader);
  reader.finish();
}

std::uint64_t draws_of(const std::string& position) {
  PositionReader reader = PositionReader::open(position);
  reader.expect("shard");
  reader.number();
  PositionReader inner = reader.nested();
  inner.expect("shuffle");
  return inner.number();
}

TEST(Shuffle, ResumesAPartInEitherWayFromEveryPlaceOfBoth) {
  for (const std::uint64_t size : {0, 3, 20, 47}) {
    for (const std::size_t buffer : {1, 6, 20, 60}) {
      for (const ShardOf part : {ShardOf{1, 0}, {2, 0}, {5, 3}}) {
        const Parts parts{range(size).shuffle(buffer, 9).stage(), part};
        const auto all = pull_up_to(*parts.open(false), 1000);
        ASSERT_EQ(pull_up_to(*parts.open(true), 1000), all);
        // Once more than there are, which is after the end.
        for (std::size_t stop = 0; stop <= all.size() + 1; ++stop) {
          for (const int ways : {0, 1, 2, 3, 4, 5, 6, 7}) {
            SCOPED_TRACE(
                fmt::format("{} {} {}/{} {} {}", size, buffer, part.index, part.count, stop, ways));
            const auto first = parts.open((ways & 1) != 0);
            auto values = pull_up_to(*first, stop);
            const auto second = parts.open((ways & 2) != 0);
            restore(*second, saved(*first));
            ASSERT_EQ(draws_of(saved(*second)), draws_of(saved(*first)));
            const auto more = pull_up_to(*second, 2);
            values.insert(values.end(), more.begin(), more.end());
            const auto third = parts.open((ways & 4) != 0);
            restore(*third, saved(*second));
            const auto rest = pull_up_to(*third, 1000);
            values.insert(values.end(), rest.begin(), rest.end());
            ASSERT_EQ(values, all);
          }
        }
      }
    }
  }
}

TEST(Shuffle, RefusesThePositionOfAPartThatItCannotHave) {
  const auto part = [](std::uint64_t size, std::size_t buffer) {
    return Parts{range(size).shuffle(buffer, 9).stage(), {2, 1}};
  };
  const Parts good = part(40, 10);
  const Parts narrower = part(40, 9);
  const Parts shorter = part(30, 10);
  const auto iterator = good.open(true);
  pull_up_to(*iterator, 15);
  const std::string position = saved(*iterator);
  for (const bool known : {false, true}) {
    EXPECT_THROW(restore(*narrower.open(known), position), InvalidArgument);
    EXPECT_THROW(restore(*shorter.open(known), position), Error);
  }
}

TEST(Shuffle, RefusesAnEmptyBuffer) { EXPECT_THROW(range(3).shuffle(0, 1), InvalidArgument); }

}  // namespace
}  // namespace muster
