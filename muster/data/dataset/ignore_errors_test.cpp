#include "muster/data/dataset/ignore_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/log.h"
#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::int64_t refuse_even(std::int64_t value) {
  if (value % 2 == 0) throw DataLoss("bad");
  return value;
}

TEST(IgnoreErrors, DropsElementsUpToItsBudgetAndLogsThem) {
  std::vector<std::string> lines;
  log::set_sink([&](log::Level, std::string_view line) { lines.emplace_back(line); });
  auto iterator = range(8).map(refuse_even).ignore_errors(2).iterate();
  const auto events = drain_events(*iterator, show_number);
  log::set_sink({});
  EXPECT_THAT(events, ElementsAre("1", "3",
                                  "!after 2 elements that ignore_errors dropped: map of range "
                                  "element 4: bad",
                                  "5",
                                  "!after 2 elements that ignore_errors dropped: map of range "
                                  "element 6: bad",
                                  "7"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[1], ::testing::HasSubstr("dropped=2 budget=2"));
}

TEST(IgnoreErrors, KeepsWhatIsLeftOfTheBudgetOverAResume) {
  const auto dataset = range(8).map(refuse_even).ignore_errors(3);
  auto iterator = dataset.iterate();
  EXPECT_EQ(iterator->next(), 1);
  EXPECT_EQ(iterator->next(), 3);
  auto resumed = dataset.iterate(iterator->save());
  EXPECT_EQ(resumed->next(), 5);
  EXPECT_THROW(resumed->next(), DataLoss);
}

}  // namespace
}  // namespace muster
