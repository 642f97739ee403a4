#include "muster/data/features/string_column.h"

#include <gmock/gmock.h>

#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(StringColumn, KeepsTheBytesOfItsStringsAliveThroughCopiesAndSlices) {
  auto text = std::make_shared<const std::string>("alphabeta");
  const std::weak_ptr<const std::string> watch = text;
  const std::string_view view = *text;
  StringColumn part;
  {
    const StringColumn column({view.substr(0, 5), view.substr(5)}, {2}, std::move(text));
    part = column.slice(1, 2);
  }
  EXPECT_FALSE(watch.expired());
  EXPECT_THAT(part.values(), ElementsAre("beta"));
  part = {};
  EXPECT_TRUE(watch.expired());
}

TEST(StringColumn, SlicesWholeRowsOfADenseBlock) {
  const StringColumn column(std::vector<std::string>{"a", "b", "c", "d", "e", "f"}, {3, 2});
  const auto part = column.slice(1, 3);
  EXPECT_EQ(part.rows(), 2);
  EXPECT_THAT(part.shape(), ElementsAre(2, 2));
  EXPECT_THAT(part.values(), ElementsAre("c", "d", "e", "f"));
  EXPECT_THAT(part.slice(1, 2).row(0), ElementsAre("e", "f"));
}

TEST(StringColumn, SlicesRaggedRows) {
  const auto column = StringColumn::ragged({"a", "b", "c"}, {0, 2, 2, 3}, nullptr);
  EXPECT_EQ(column.rows(), 3);
  EXPECT_TRUE(column.row(1).empty());
  const auto part = column.slice(1, 3);
  EXPECT_THAT(part.values(), ElementsAre("c"));
  EXPECT_TRUE(part.row(0).empty());
  EXPECT_THAT(part.row(1), ElementsAre("c"));
}

TEST(StringColumn, RejectsShapesAndSplitsThatDoNotFit) {
  const std::vector<std::string> two{"a", "b"};
  EXPECT_THROW(StringColumn(two, {3}), InvalidArgument);
  EXPECT_THROW(StringColumn(two, {}), InvalidArgument);
  EXPECT_THROW(StringColumn::ragged({"a", "b"}, {0, 1}, nullptr), InvalidArgument);
  EXPECT_THROW(StringColumn::ragged({"a", "b"}, {0, 2, 1, 2}, nullptr), InvalidArgument);
  EXPECT_THROW(StringColumn(two, {2}).slice(1, 3), OutOfRange);
  EXPECT_THROW(StringColumn(two, {2}).row(2), OutOfRange);
}

}  // namespace
}  // namespace muster
