#include "muster/data/dataset/interleave.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Element i becomes i + 1 numbers: 10 i, 10 i + 1, ...
Dataset<std::int64_t> tens(std::int64_t i) {
  return range(static_cast<std::uint64_t>(i) + 1).map([i](std::int64_t j) { return 10 * i + j; });
}

TEST(Interleave, ReadsSeveralInTurnsAndReplacesThoseThatEnd) {
  EXPECT_THAT(drain(range(4).interleave(tens, 2)),
              ElementsAre(0, 10, 20, 11, 21, 30, 22, 31, 32, 33));
  EXPECT_THAT(drain(range(3).interleave(tens, 1)), ElementsAre(0, 10, 11, 20, 21, 22));
  EXPECT_THAT(drain(range(4).interleave(tens, 2, 2)),
              ElementsAre(0, 10, 11, 20, 21, 30, 31, 22, 32, 33));
}

TEST(Interleave, EndsOverEmptyDatasets) {
  const auto none = [](std::int64_t) { return range(0); };
  EXPECT_TRUE(drain(range(100).interleave(none, 3)).empty());
}

TEST(Interleave, GivesEveryElementAnOriginOfItsOwn) {
  auto iterator = range(6).repeat(2).interleave(tens, 3).iterate();
  std::set<Origin> origins;
  std::size_t count = 0;
  while (auto element = iterator->next_element()) {
    origins.insert(element->origin);
    ++count;
  }
  EXPECT_EQ(origins.size(), count);
}

TEST(Interleave, ResumesEverywhereAlsoUnderAShuffle) {
  const auto dataset = range(9).interleave(tens, 3, 2).shuffle(6, 1).repeat(2);
  const auto all = drain(dataset);
  for (std::size_t stop = 0; stop <= all.size(); ++stop) {
    auto iterator = dataset.iterate();
    for (std::size_t i = 0; i < stop; ++i) iterator->next();
    auto resumed = dataset.iterate(iterator->save());
    EXPECT_EQ(drain(*resumed), std::vector<std::int64_t>(
                                   all.begin() + static_cast<std::ptrdiff_t>(stop), all.end()));
  }
}

TEST(Interleave, SaysWhereAnElementOfAnInnerDatasetIs) {
  auto iterator = range(3)
                      .interleave(tens, 2)
                      .map([](std::int64_t value) -> std::int64_t {
                        if (value == 11) throw InvalidArgument("no");
                        return value;
                      })
                      .iterate();
  EXPECT_THAT(drain_events(*iterator, show_number),
              ElementsAre("0", "10", "20", "!map of range element 1: no", "21", "22"));
}

TEST(Interleave, RefusesRepeatsInsideAndSaysWhereToPutThem) {
  const auto twice = [](std::int64_t) { return range(1).repeat(2); };
  auto iterator = range(1).interleave(twice, 1).iterate();
  iterator->next();
  try {
    iterator->next();
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("put repeat behind interleave"));
  }
}

TEST(Interleave, PassesOnAFailureToMakeADatasetAndGoesOn) {
  const auto open = [](std::int64_t i) -> Dataset<std::int64_t> {
    if (i == 1) throw NotFound("no such file");
    return tens(i);
  };
  auto iterator = range(3).interleave(open, 1).iterate();
  EXPECT_THAT(drain_events(*iterator, show_number),
              ElementsAre("0", "!interleave of range element 1: no such file", "20", "21", "22"));
}

}  // namespace
}  // namespace muster
