#include "muster/data/dataset/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(Zip, PairsElementsUntilTheShortestEnds) {
  const auto words = from_vector<std::string>({"a", "b"});
  const auto dataset = zip(range(5), words, range(9).skip(4));
  EXPECT_THAT(drain(dataset), ElementsAre(std::make_tuple(0, "a", 4), std::make_tuple(1, "b", 5)));
  EXPECT_EQ(dataset.size(), 2u);
}

TEST(Zip, KeepsPairsTogetherBehindAFailure) {
  const auto left = range(4).map([](std::int64_t value) {
    if (value == 1) throw InvalidArgument("no");
    return value;
  });
  auto iterator = zip(left, range(4)).iterate();
  const auto show = [](const std::tuple<std::int64_t, std::int64_t>& pair) {
    return fmt::format("{}-{}", std::get<0>(pair), std::get<1>(pair));
  };
  EXPECT_THAT(drain_events(*iterator, show),
              ElementsAre("0-0", "!map of range element 1: no", "2-2", "3-3"));
}

TEST(Zip, ResumesInTheMiddleAndInAShuffle) {
  const auto dataset = zip(range(100).shuffle(10, 1), range(100)).shuffle(7, 2).prefetch(3);
  auto iterator = dataset.iterate();
  for (int i = 0; i < 40; ++i) iterator->next();
  auto resumed = dataset.iterate(iterator->save());
  EXPECT_EQ(drain(*resumed), drain(*iterator));
}

}  // namespace
}  // namespace muster
