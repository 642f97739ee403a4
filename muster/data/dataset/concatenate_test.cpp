#include "muster/data/dataset/concatenate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(Concatenate, GivesOneStreamAfterTheOther) {
  const auto dataset = range(2).concatenate(from_vector<std::int64_t>({7, 8}));
  EXPECT_THAT(drain(dataset), ElementsAre(0, 1, 7, 8));
  EXPECT_EQ(dataset.size(), 4u);
}

TEST(Concatenate, GivesEveryElementAnOriginOfItsOwn) {
  auto iterator = range(3).concatenate(range(3)).concatenate(range(3)).iterate();
  std::set<Origin> origins;
  while (auto element = iterator->next_element()) origins.insert(element->origin);
  EXPECT_EQ(origins.size(), 9u);
}

TEST(Concatenate, HasRandomAccessWhenItsBranchesHave) {
  auto values = drain(range(3).concatenate(from_vector<std::int64_t>({7})).global_shuffle(1));
  std::sort(values.begin(), values.end());
  EXPECT_THAT(values, ElementsAre(0, 1, 2, 7));
}

TEST(Concatenate, ResumesAShuffleThatHoldsElementsOfBoth) {
  const auto dataset = range(30).repeat(2).concatenate(range(40)).shuffle(25, 1);
  auto iterator = dataset.iterate();
  for (int i = 0; i < 50; ++i) iterator->next();
  auto resumed = dataset.iterate(iterator->save());
  EXPECT_EQ(drain(*resumed), drain(*iterator));
}

}  // namespace
}  // namespace muster
