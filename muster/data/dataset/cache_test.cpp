#include "muster/data/dataset/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/data/dataset/drain_internal.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

Dataset<std::int64_t> counted(int& calls) {
  return range(5).map([&calls](std::int64_t value) {
    ++calls;
    return value * 2;
  });
}

TEST(Cache, MakesEveryElementOnceOverSeveralEpochs) {
  int calls = 0;
  const auto dataset = counted(calls).cache().repeat(3);
  EXPECT_THAT(drain(dataset), SizeIs(15));
  EXPECT_EQ(calls, 5);
  EXPECT_THAT(drain(dataset), SizeIs(15));
  EXPECT_EQ(calls, 5) << "another pass of the same dataset";
}

TEST(Cache, KeepsNothingOfAPassThatWasNotCompleted) {
  int calls = 0;
  const auto dataset = counted(calls).cache();
  dataset.iterate()->next();
  calls = 0;
  EXPECT_THAT(drain(dataset), ElementsAre(0, 2, 4, 6, 8));
  EXPECT_EQ(calls, 5);
}

TEST(Cache, KeepsNothingOfAPassWithAFailure) {
  const auto dataset = range(3)
                           .map([](std::int64_t value) {
                             if (value == 1) throw DataLoss("bad");
                             return value;
                           })
                           .cache()
                           .repeat(2);
  auto iterator = dataset.iterate();
  EXPECT_THAT(drain_events(*iterator, show_number),
              ElementsAre("0", "!map of range element 1: bad", "2", "0",
                          "!map of range element 1: bad", "2"));
}

TEST(Cache, KeepsTheSameElementsHoweverLateTheRunIsResumed) {
  const auto dataset = [] {  // each call starts with an empty cache, as a new process does
    return range(6)
        .map([](std::int64_t, Random& random) { return random.next_u64(); }, {.seed = 4})
        .cache()
        .shuffle(3, 1)
        .repeat(3);
  };
  const auto all = drain(dataset());
  for (std::size_t stop = 0; stop <= all.size(); ++stop) {
    auto iterator = dataset().iterate();
    for (std::size_t i = 0; i < stop; ++i) iterator->next();
    auto resumed = dataset().iterate(iterator->save());
    EXPECT_EQ(drain(*resumed), std::vector<std::uint64_t>(
                                   all.begin() + static_cast<std::ptrdiff_t>(stop), all.end()));
  }
}

TEST(CacheFile, ServesLaterRunsFromTheFile) {
  const testing::TempDir dir;
  const auto words = from_vector<std::string>({"alpha", "", "gamma"});
  EXPECT_THAT(drain(words.cache(dir / "words.cache")), ElementsAre("alpha", "", "gamma"));
  const auto other = from_vector<std::string>({"never read"}).cache(dir / "words.cache");
  EXPECT_THAT(drain(other), ElementsAre("alpha", "", "gamma"));
}

TEST(CacheFile, AppearsOnlyWhenAPassIsComplete) {
  const testing::TempDir dir;
  const auto dataset = from_vector<std::string>({"a", "b"}).cache(dir / "cache");
  {
    auto iterator = dataset.iterate();
    iterator->next();
    EXPECT_FALSE(std::filesystem::exists(dir / "cache"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  drain(dataset);
  EXPECT_TRUE(std::filesystem::exists(dir / "cache"));
}

TEST(CacheFile, KeepsOtherElementsThroughACodec) {
  const testing::TempDir dir;
  const CacheCodec<std::int64_t> codec{
      .encode = [](const std::int64_t& value) { return std::to_string(value); },
      .decode =
          [](const Record& record) { return std::int64_t{std::stol(std::string(record.bytes))}; }};
  const auto dataset = range(100).cache(dir / "numbers", codec).shuffle(10, 1).repeat(2);
  auto iterator = dataset.iterate();
  for (int i = 0; i < 130; ++i) iterator->next();
  auto resumed = dataset.iterate(iterator->save());
  EXPECT_EQ(drain(*resumed), drain(*iterator));
}

}  // namespace
}  // namespace muster
