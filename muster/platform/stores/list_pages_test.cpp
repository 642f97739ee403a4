#include "muster/platform/stores/list_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster::stores {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

TEST(ListProgress, TakesListsThatEnd) {
  ListProgress progress("listing s3://bucket");
  for (int i = 1; i < 9000; ++i) progress.add_page(1000, std::to_string(i));
  progress.add_page(0, "last");
  EXPECT_NO_THROW(progress.add_page(3, ""));
}

TEST(ListProgress, EndsAListThatRunsInACircle) {
  ListProgress progress("listing s3://bucket");
  for (const char* next : {"a", "b", "c"}) progress.add_page(1, next);
  EXPECT_THAT(message_of([&] { progress.add_page(1, "a"); }),
              HasSubstr("listing s3://bucket: the store's list does not end: page 4 continues "
                        "where an earlier one did"));
}

TEST(ListProgress, EndsAListBeyondItsLimits) {
  const ListLimits limits{.most_entries = 10, .most_pages = 5, .most_empty_pages = 2};
  const auto said = [&](std::initializer_list<std::size_t> pages) {
    ListProgress progress("x", limits);
    return message_of([&] {
      int place = 0;
      for (const std::size_t entries : pages) progress.add_page(entries, std::to_string(++place));
    });
  };
  EXPECT_THAT(said({5, 5, 1}), HasSubstr("more than 10 entries"));
  EXPECT_THAT(said({1, 0, 0, 0}), HasSubstr("3 pages in a row have no entry"));
  EXPECT_THAT(said({1, 0, 0, 1, 0, 1}), HasSubstr("more than 5 pages"));
}

}  // namespace
}  // namespace muster::stores
