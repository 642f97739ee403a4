#include "muster/data/features/features.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/data/features/batch.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RaggedColumn ids_of_three_rows() {
  return {.values = torch::tensor({7, 8, 9}, torch::kLong),
          .row_splits = torch::tensor({0, 2, 2, 3}, torch::kLong),
          .weights = torch::tensor({0.5F, 1.0F, 2.0F})};
}

Features three_rows() {
  return {{"x", torch::arange(6, torch::kFloat).view({3, 2})},
          {"word", StringColumn(std::vector<std::string>{"a", "b", "c"}, {3})},
          {"id", ids_of_three_rows()}};
}

TEST(Features, KeepTheOrderInWhichColumnsWereAdded) {
  const Features features = three_rows();
  EXPECT_EQ(features.names(), "x, word, id");
  EXPECT_EQ(features.batch_size(), 3);
}

TEST(Features, NameWhatThereIsWhenAColumnIsMissing) {
  EXPECT_THROW(three_rows().tensor("y"), NotFound);
  EXPECT_THAT(message_of([] { three_rows().tensor("y"); }),
              HasSubstr("no feature \"y\"; there are: x, word, id"));
}

TEST(Features, SayWhatAColumnIsWhenAskedForAnotherKind) {
  EXPECT_THROW(three_rows().strings("x"), InvalidArgument);
  EXPECT_THAT(message_of([] { three_rows().strings("x"); }),
              HasSubstr("\"x\" is a Float tensor [3, 2], not strings"));
  EXPECT_THROW(three_rows().ids("word"), InvalidArgument);
  Features floats{{"f", RaggedColumn{.values = torch::ones({1}),
                                     .row_splits = torch::tensor({0, 1}, torch::kLong)}}};
  EXPECT_NO_THROW(floats.ragged("f"));
  EXPECT_THROW(floats.ids("f"), InvalidArgument);
}

TEST(Features, RejectAColumnWithAnotherNumberOfRows) {
  Features features = three_rows();
  EXPECT_THROW(features.add("z", torch::ones({4})), InvalidArgument);
  EXPECT_THROW(features.add("z", torch::tensor(1.0F)), InvalidArgument);
  EXPECT_THROW(features.add("z", at::Tensor()), InvalidArgument);
  EXPECT_THROW(features.add("x", torch::ones({3})), AlreadyExists);
  features.set("x", torch::ones({3}));
  EXPECT_EQ(features.names(), "x, word, id");
  EXPECT_EQ(features.tensor("x").dim(), 1);
}

TEST(Features, SliceRowsOfEveryKind) {
  const Features part = three_rows().slice(1, 3);
  EXPECT_EQ(part.batch_size(), 2);
  EXPECT_TRUE(torch::equal(part.tensor("x"), torch::tensor({{2.0F, 3.0F}, {4.0F, 5.0F}})));
  EXPECT_THAT(part.strings("word").values(), ElementsAre("b", "c"));
  const auto& id = part.ids("id");
  EXPECT_TRUE(torch::equal(id.values, torch::tensor({9}, torch::kLong)));
  EXPECT_TRUE(torch::equal(id.row_splits, torch::tensor({0, 0, 1}, torch::kLong)));
  EXPECT_TRUE(torch::equal(id.weights, torch::tensor({2.0F})));
  EXPECT_THROW(three_rows().slice(2, 4), OutOfRange);
}

TEST(Features, MoveTensorsToADeviceAndLeaveStringsWhereTheyAre) {
  const Features moved = three_rows().to(at::Device(at::kMeta));
  EXPECT_TRUE(moved.tensor("x").is_meta());
  EXPECT_TRUE(moved.ids("id").values.is_meta());
  EXPECT_TRUE(moved.ids("id").row_splits.is_cpu());
  EXPECT_THAT(moved.strings("word").values(), ElementsAre("a", "b", "c"));
}

TEST(Batch, RejectsLabelsOfAnotherSizeThanTheFeatures) {
  EXPECT_THROW(make_batch(three_rows(), torch::ones({2})), InvalidArgument);
  const Batch batch = make_batch(three_rows(), torch::arange(3));
  EXPECT_EQ(batch.size(), 3);
  EXPECT_TRUE(torch::equal(batch.slice(2, 3).labels.tensor(kLabel), torch::tensor({2})));
}

}  // namespace
}  // namespace muster
