// Stops readers at random places, saves, restores in a fresh pipeline, and compares the whole rest.

#include <gtest/gtest.h>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using Numbers = Dataset<std::int64_t>;

std::int64_t augment(std::int64_t value, Random& random) {
  return value % 1'000'000'007 * 1000 + static_cast<std::int64_t>(random.below(1000));
}

Numbers flatten_batches(const Dataset<std::vector<std::int64_t>>& batches) {
  return batches.map([](std::vector<std::int64_t> values) {
    std::int64_t mixed = static_cast<std::int64_t>(values.size());
    for (const std::int64_t value : values) mixed = mixed * 31 + value % 1'000'003;
    return mixed & 0xffffffffffff;
  });
}

Numbers add_source(Random& random) {
  const std::uint64_t size = random.below(300) + 1;
  switch (random.below(4)) {
    case 0:
      return range(size);
    case 1:
      return range(size).concatenate(range(size / 2 + 1));
    case 2:
      return generate([size](std::uint64_t i) {
        return i < size ? std::optional(static_cast<std::int64_t>(i * 7)) : std::nullopt;
      });
    default:
      return range(size / 20 + 1)
          .interleave([](std::int64_t i) { return range(static_cast<std::uint64_t>(i % 25)); },
                      random.below(4) + 1, random.below(3) + 1);
  }
}

Numbers add_stage(const Numbers& input, Random& random, std::size_t parallelism) {
  const std::uint64_t seed = random.below(100);
  switch (random.below(12)) {
    case 0:
      return input.shuffle(random.below(60) + 1, seed);
    case 1:
      return input.repeat(random.below(3) + 1);
    case 2: {
      const std::uint64_t count = random.below(3) + 1;
      return input.shard(count, random.below(count));
    }
    case 3:
    case 4:
      return input.map(augment, {.parallelism = parallelism, .seed = seed});
    case 5:
      return flatten_batches(input.batch(random.below(9) + 1));
    case 6:
      return input.prefetch(random.below(40) + 1);
    case 7:
      return input.filter([](std::int64_t value) { return value % 3 != 0; });
    case 8:
      return input.skip(random.below(20));
    case 9:
      return input.take(random.below(200) + 20);
    case 10:
      return input.cache();
    default:
      return zip(input, range(1'000'000)).map([](std::tuple<std::int64_t, std::int64_t> pair) {
        return std::get<0>(pair) + std::get<1>(pair);
      });
  }
}

// The same shape for the same seed, whatever the parallelism.
Numbers random_pipeline(std::uint64_t seed, std::size_t parallelism) {
  Random random(seed);
  Numbers dataset = add_source(random);
  for (std::uint64_t left = random.below(7) + 1; left > 0; --left) {
    dataset = add_stage(dataset, random, parallelism);
  }
  return dataset.take(3000);
}

constexpr std::uint64_t kPipelines = 400;

TEST(Resume, GivesTheRestOfTheStreamFromAnyPlaceOfAnyPipeline) {
  std::size_t elements = 0;
  for (std::uint64_t seed = 0; seed < kPipelines; ++seed) {
    SCOPED_TRACE(seed);
    const auto all = drain(random_pipeline(seed, 2));
    elements += all.size();
    Random random(seed, 1, 1);
    const std::size_t stop = random.below(all.size() + 1);
    auto iterator = random_pipeline(seed, 2).iterate();
    for (std::size_t i = 0; i < stop; ++i) iterator->next();
    auto resumed = random_pipeline(seed, 3).iterate(iterator->save());
    // A second stop, so that what a resumed pass saves is tried too.
    const std::size_t second = random.below(all.size() - stop + 1);
    for (std::size_t i = 0; i < second; ++i) ASSERT_EQ(resumed->next(), all[stop + i]);
    const auto rest = drain(*random_pipeline(seed, 2).iterate(resumed->save()));
    ASSERT_EQ(rest, std::vector<std::int64_t>(
                        all.begin() + static_cast<std::ptrdiff_t>(stop + second), all.end()));
  }
  EXPECT_GT(elements, 20'000u) << "the pipelines are not trivial";
}

TEST(Resume, GivesTheSameStreamWhateverTheParallelism) {
  for (std::uint64_t seed = 0; seed < kPipelines; ++seed) {
    SCOPED_TRACE(seed);
    const auto serial = drain(random_pipeline(seed, 1));
    ASSERT_EQ(drain(random_pipeline(seed, 2)), serial);
    ASSERT_EQ(drain(random_pipeline(seed, 4)), serial);
  }
}

TEST(Resume, GoesOnFromEveryPlaceOfATrainingPipeline) {
  const auto dataset = range(90)
                           .shard(2, 1)
                           .shuffle(16, 3)
                           .repeat()
                           .map(augment, {.parallelism = 2, .seed = 9})
                           .batch(4, Remainder::kDrop)
                           .prefetch(3)
                           .take(60);
  const auto all = drain(dataset);
  for (std::size_t stop = 0; stop <= all.size(); ++stop) {
    auto iterator = dataset.iterate();
    for (std::size_t i = 0; i < stop; ++i) iterator->next();
    auto resumed = dataset.iterate(iterator->save());
    ASSERT_EQ(drain(*resumed), std::vector<std::vector<std::int64_t>>(
                                   all.begin() + static_cast<std::ptrdiff_t>(stop), all.end()));
  }
}

TEST(Resume, ReportsFailuresThatWereAheadOfTheConsumerAgain) {
  const auto dataset = range(200)
                           .map(
                               [](std::int64_t value) {
                                 if (value % 17 == 3) throw DataLoss("bad");
                                 return value;
                               },
                               {.parallelism = 2})
                           .shuffle(10, 1)
                           .prefetch(8);
  auto whole = dataset.iterate();
  const auto all = drain_events(*whole, show_number);
  ASSERT_EQ(all.size(), 200u);
  for (std::size_t stop = 0; stop <= all.size(); stop += 3) {
    auto iterator = dataset.iterate();
    for (std::size_t i = 0; i < stop; ++i) {
      try {
        iterator->next();
      } catch (const DataLoss&) {
      }
    }
    auto resumed = dataset.iterate(iterator->save());
    ASSERT_EQ(drain_events(*resumed, show_number),
              std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(stop), all.end()));
  }
}

TEST(Resume, RefusesAPositionOfAnotherPipeline) {
  const std::string position = range(10).shuffle(3, 1).batch(2).iterate()->save();
  EXPECT_THROW(range(10).batch(2).iterate(position), InvalidArgument);
  EXPECT_THROW(range(10).shuffle(3, 1).iterate(position), InvalidArgument);
  EXPECT_THROW(range(10).shuffle(3, 1).batch(2).prefetch(1).iterate(position), InvalidArgument);
}

TEST(Resume, TellsOfDataThatHasBecomeShorter) {
  auto iterator = range(10).iterate();
  for (int i = 0; i < 8; ++i) iterator->next();
  EXPECT_THROW(range(5).iterate(iterator->save()), FailedPrecondition);
}

TEST(Resume, SurvivesAnyMutationOfAPosition) {
  const auto dataset = range(50).repeat(2).shuffle(8, 1).batch(3).prefetch(2);
  auto iterator = dataset.iterate();
  for (int i = 0; i < 9; ++i) iterator->next();
  const std::string good = iterator->save();
  Random random(1);
  for (int mutant = 0; mutant < 2000; ++mutant) {
    std::string bad = good;
    bad[random.below(bad.size())] = static_cast<char>(random.next_u32());
    if (random.coin()) bad.resize(random.below(bad.size()));
    if (bad == good) continue;
    EXPECT_THROW(dataset.iterate(bad), Error);
  }
}

}  // namespace
}  // namespace muster
