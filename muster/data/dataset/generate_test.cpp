#include "muster/data/dataset/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::optional<std::int64_t> square(std::uint64_t i) {
  if (i == 6) return std::nullopt;
  return static_cast<std::int64_t>(i * i);
}

TEST(Generate, GivesElementsUntilThereIsNone) {
  EXPECT_THAT(drain(generate(square)), ElementsAre(0, 1, 4, 9, 16, 25));
}

TEST(Generate, ResumesAlsoAtItsEnd) {
  const auto dataset = generate(square).shuffle(2, 1);
  auto iterator = dataset.iterate();
  for (int i = 0; i < 3; ++i) iterator->next();
  auto resumed = dataset.iterate(iterator->save());
  EXPECT_EQ(drain(*resumed), drain(*iterator));
  EXPECT_EQ(dataset.iterate(iterator->save())->next(), std::nullopt);
}

auto counter() {
  return [next = std::int64_t{0}]() mutable -> std::optional<std::int64_t> {
    if (next == 3) return std::nullopt;
    return next++;
  };
}

TEST(FromGenerator, StartsAnewForEachPass) {
  EXPECT_THAT(drain(from_generator(counter).repeat(2)), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(FromGenerator, RefusesToSaveAndNamesItselfAlsoBehindPrefetch) {
  for (const bool prefetched : {false, true}) {
    auto dataset = from_generator(counter).shuffle(2, 1);
    if (prefetched) dataset = dataset.prefetch(2);
    auto iterator = dataset.iterate();
    iterator->next();
    try {
      iterator->save();
      FAIL();
    } catch (const FailedPrecondition& error) {
      EXPECT_THAT(error.what(), HasSubstr("stage from_generator"));
    }
    EXPECT_EQ(drain(*iterator).size(), 2u) << "the pass itself goes on";
  }
}

}  // namespace
}  // namespace muster
