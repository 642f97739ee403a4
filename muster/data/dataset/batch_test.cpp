#include "muster/data/dataset/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::int64_t refuse_fives(std::int64_t value) {
  if (value % 5 == 0 && value > 0) throw InvalidArgument("refused");
  return value;
}

TEST(Batch, KeepsOrDropsTheRemainder) {
  EXPECT_THAT(drain(range(5).batch(2)),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(drain(range(5).batch(2, Remainder::kDrop)),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_EQ(range(5).batch(2).size(), 3u);
  EXPECT_EQ(range(5).batch(2, Remainder::kDrop).size(), 2u);
}

TEST(Batch, GivesWhatCollateMakesOfAVectorOrASpan) {
  const auto sum = [](std::span<const std::int64_t> values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  };
  EXPECT_THAT(drain(range(5).batch(2, sum)), ElementsAre(1, 5, 4));
  const auto count = [](std::vector<std::int64_t>&& values) { return values.size(); };
  EXPECT_THAT(drain(range(5).batch(3, count)), ElementsAre(3u, 2u));
}

TEST(Batch, PadsRowsToTheLongestOfTheirBatch) {
  const auto rows = from_vector<std::vector<float>>({{1}, {2, 3, 4}, {}, {5, 6}});
  const auto batches = drain(rows.padded_batch(2, -1));
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].width, 3u);
  EXPECT_THAT(batches[0].values, ElementsAre(1, -1, -1, 2, 3, 4));
  EXPECT_THAT(batches[0].lengths, ElementsAre(1u, 3u));
  EXPECT_THAT(batches[1].row(0), ElementsAre(-1, -1));
  EXPECT_THAT(batches[1].row(1), ElementsAre(5, 6));
}

TEST(Batch, HoldsBooleans) {
  EXPECT_THAT(drain(from_vector<bool>({true, false, true}).batch(2)),
              ElementsAre(ElementsAre(true, false), ElementsAre(true)));
}

TEST(Batch, ReportsAFailedElementAndFillsTheBatchWithItsNeighbours) {
  auto iterator = range(11).map(refuse_fives).batch(4).iterate();
  EXPECT_THAT(drain_events(*iterator, show_numbers),
              ElementsAre("0,1,2,3", "!map of range element 5: refused", "4,6,7,8",
                          "!map of range element 10: refused", "9"));
}

TEST(Batch, ResumesBetweenAFailureAndTheBatchItWasIn) {
  const auto dataset = range(41).map(refuse_fives).batch(12);
  auto whole = dataset.iterate();
  const auto events = drain_events(*whole, show_numbers);
  ASSERT_EQ(events.size(), 8u + 3u);
  for (std::size_t stop = 0; stop < events.size(); ++stop) {
    auto iterator = dataset.iterate();
    for (std::size_t i = 0; i < stop; ++i) {
      try {
        iterator->next();
      } catch (const Error&) {
      }
    }
    auto resumed = dataset.iterate(iterator->save());
    EXPECT_EQ(
        drain_events(*resumed, show_numbers),
        std::vector<std::string>(events.begin() + static_cast<std::ptrdiff_t>(stop), events.end()));
  }
}

TEST(Batch, SaysWhichRecordsABatchWasMadeOf) {
  auto iterator = range(5)
                      .batch(3,
                             [](std::span<const std::int64_t>) -> int {
                               throw InvalidArgument("cannot collate");
                             })
                      .iterate();
  try {
    iterator->next();
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "batch 0, from range element 0 to range element 2: cannot collate");
  }
}

TEST(Batch, RefusesASizeOfZero) { EXPECT_THROW(range(3).batch(0), InvalidArgument); }

}  // namespace
}  // namespace muster
