#include "muster/data/dataset/position.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string what_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Position, GivesBackWhatWasWritten) {
  auto inner = std::make_shared<PositionWriter>();
  inner->stage("range");
  inner->number(7);
  PositionWriter writer;
  writer.stage("shuffle");
  writer.number(std::numeric_limits<std::uint64_t>::max());
  writer.text("a text");
  writer.origins({{0, 5}, {2, 1}, {0, 3}});
  writer.nested(inner);
  const std::string bytes = writer.encode();

  PositionReader reader = PositionReader::open(bytes);
  reader.expect("shuffle");
  EXPECT_EQ(reader.number(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(reader.text(), "a text");
  EXPECT_EQ(reader.origins(), (std::vector<Origin>{{0, 5}, {2, 1}, {0, 3}}));
  PositionReader nested = reader.nested();
  nested.expect("range");
  EXPECT_EQ(nested.number(), 7u);
  nested.finish();
  reader.finish();
}

TEST(Position, KeepsTheOrderOfOriginsOfAnyNumber) {
  for (const std::size_t count : {0, 1, 2, 3, 255, 256, 257, 5000}) {
    Random random(count);
    std::vector<Origin> origins(count);
    for (Origin& origin : origins) origin = {random.below(3), random.next_u64()};
    PositionWriter writer;
    writer.origins(origins);
    const std::string bytes = writer.encode();
    EXPECT_EQ(PositionReader::open(bytes).origins(), origins) << count;
  }
}

TEST(Position, TakesFourBytesAtMostForAnElementInAWindowOfTenThousand) {
  const Permutation order(10000, 1);
  std::vector<Origin> origins;
  for (std::uint64_t i = 0; i < 10000; ++i) origins.push_back({3, 1'000'000 + 3 * order(i)});
  PositionWriter writer;
  writer.origins(origins);
  EXPECT_LT(writer.encode().size(), 40'000u);
}

TEST(Position, NamesBothStagesWhenTheyDiffer) {
  PositionWriter writer;
  writer.stage("shuffle");
  const std::string bytes = writer.encode();
  EXPECT_EQ(what_of([&] { PositionReader::open(bytes).expect("batch"); }),
            "position was saved at stage shuffle, but this pipeline has batch here");
}

TEST(Position, SaysThatAFlippedByteIsDamage) {
  PositionWriter writer;
  writer.stage("shuffle");
  const std::string good = writer.encode();
  for (std::size_t i = 2; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_THAT(what_of([&] { PositionReader::open(bad); }), HasSubstr("damaged"));
  }
  EXPECT_THAT(what_of([&] { PositionReader::open("hello, world"); }), HasSubstr("not a dataset"));
  EXPECT_THAT(what_of([&] { PositionReader::open(""); }), HasSubstr("not a dataset"));
}

TEST(Position, TakesNoMemoryForACountThatItsBytesCannotHold) {
  PositionWriter writer;
  writer.number(std::uint64_t{1} << 60);  // read as a number of origins
  const std::string bytes = writer.encode();
  EXPECT_THAT(what_of([&] { PositionReader::open(bytes).origins(); }), HasSubstr("elements in"));
  EXPECT_THAT(what_of([&] { PositionReader::open(bytes).text(); }), HasSubstr("ends too early"));
}

TEST(Position, KeepsWhatFailuresSay) {
  const std::vector<std::exception_ptr> failures{std::make_exception_ptr(DataLoss("torn"))};
  PositionWriter writer;
  writer.failures(failures);
  const std::string bytes = writer.encode();
  const auto read = PositionReader::open(bytes).failures();
  ASSERT_EQ(read.size(), 1u);
  try {
    std::rethrow_exception(read[0]);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_STREQ(error.what(), "torn");
  }
}

}  // namespace
}  // namespace muster
