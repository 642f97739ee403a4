#include "muster/data/records/example_parser.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/records/example_builder.h"
#include "muster/example.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> values(const FeatureView& view) {
  std::vector<T> out;
  view.append_to(out);
  return out;
}

/// A length-delimited field of a hand-made message.
std::string field(int number, const std::string& payload) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  EXPECT_LT(payload.size(), 128U);
  out.push_back(static_cast<char>(payload.size()));
  return out + payload;
}

std::string entry(const std::string& key, const std::string& feature) {
  return field(1, field(1, key) + field(2, feature));
}

proto::Example sample_message() {
  proto::Example message;
  auto& features = *message.mutable_features()->mutable_feature();
  features["image"].mutable_bytes_list()->add_value(std::string(300, 'x'));
  features["image"].mutable_bytes_list()->add_value("second");
  features["label"].mutable_int64_list()->add_value(-1);
  features["label"].mutable_int64_list()->add_value(1L << 40);
  features["score"].mutable_float_list()->add_value(0.25F);
  features["score"].mutable_float_list()->add_value(-3);
  features["empty"];
  return message;
}

TEST(ExampleParser, ReadsEveryKindThatProtobufWrote) {
  const std::string bytes = sample_message().SerializeAsString();
  const auto view = ExampleParser({"score", "image", "label", "empty", "absent"}).parse(bytes);

  EXPECT_EQ(view[0].kind(), FeatureKind::kFloat);
  EXPECT_THAT(values<float>(view[0]), ElementsAre(0.25F, -3));
  EXPECT_EQ(view[0].first_float(), 0.25F);
  EXPECT_EQ(view[1].kind(), FeatureKind::kBytes);
  EXPECT_THAT(values<std::string_view>(view[1]), ElementsAre(std::string(300, 'x'), "second"));
  EXPECT_EQ(view[2].kind(), FeatureKind::kInt64);
  EXPECT_THAT(values<std::int64_t>(view[2]), ElementsAre(-1, 1L << 40));
  EXPECT_EQ(view[2].first_int64(), -1);
  EXPECT_EQ(view[3].kind(), FeatureKind::kNone);
  EXPECT_EQ(view[4].kind(), FeatureKind::kNone);
}

TEST(ExampleParser, GivesViewsIntoTheSerialisedBytes) {
  const std::string bytes = ExampleBuilder().add_bytes("image", "pixels").serialize();
  const auto view = ExampleParser({"image"}).parse(bytes);
  const std::string_view image = view[0].first_bytes();
  EXPECT_EQ(image, "pixels");
  EXPECT_GE(image.data(), bytes.data());
  EXPECT_LE(image.data() + image.size(), bytes.data() + bytes.size());
}

TEST(ExampleParser, ForgetsTheLastExampleWhenAViewIsUsedAgain) {
  const ExampleParser parser({"a", "b"});
  ExampleView view;
  parser.parse(ExampleBuilder().add_int("a", 1).add_int("b", 2).serialize(), view);
  const std::string second = ExampleBuilder().add_int("b", 3).serialize();
  parser.parse(second, view);
  EXPECT_EQ(view[0].kind(), FeatureKind::kNone);
  EXPECT_EQ(view[1].first_int64(), 3);
}

TEST(ExampleParser, ReadsValuesThatWereNotPacked) {
  const std::string ints = field(3, std::string("\x08\x05\x08\x96\x01", 5));
  const std::string floats = field(2, std::string("\x0D\x00\x00\x80\x3F", 5));
  const std::string bytes = field(1, entry("ints", ints) + entry("floats", floats));
  const auto view = ExampleParser({"ints", "floats"}).parse(bytes);
  EXPECT_THAT(values<std::int64_t>(view[0]), ElementsAre(5, 150));
  EXPECT_THAT(values<float>(view[1]), ElementsAre(1.0F));
}

TEST(ExampleParser, TakesTheLastOfAKeyThatComesTwice) {
  const std::string first = field(3, field(1, "\x01"));
  const std::string last = field(1, field(1, "bytes now"));
  const std::string bytes = field(1, entry("k", first) + entry("k", last));
  const auto view = ExampleParser({"k"}).parse(bytes);
  EXPECT_EQ(view[0].kind(), FeatureKind::kBytes);
  EXPECT_EQ(view[0].first_bytes(), "bytes now");
}

TEST(ExampleParser, MergesAListInPiecesAsProtobufDoes) {
  const std::string pieces = field(3, field(1, "\x01\x02")) + field(3, field(1, "\x03"));
  const std::string two_values =
      field(1, field(1, "k") + field(2, pieces) + field(2, field(3, field(1, "\x04"))));
  const std::string bytes = field(1, two_values);
  proto::Example message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  ASSERT_THAT(message.features().feature().at("k").int64_list().value(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values<std::int64_t>(ExampleParser({"k"}).parse(bytes)[0]), ElementsAre(1, 2, 3, 4));
}

TEST(ExampleParser, PassesOverUnknownFieldsAndGroups) {
  const std::string group = "\x4B" + field(2, "inside") + "\x4C";  // field 9: start, end
  const std::string value = field(3, field(1, "\x07"));
  const std::string odd = field(1, field(7, "?") + field(2, value) + field(1, "k"));
  const std::string bytes = group + field(1, field(5, "x") + odd) + "\x18\x01";
  EXPECT_EQ(ExampleParser({"k"}).parse(bytes)[0].first_int64(), 7);
}

TEST(ExampleParser, CopiesWhatFitsAndCountsTheRest) {
  const std::string bytes = ExampleBuilder()
                                .add_ints("i", std::vector<std::int64_t>{1, 2, 3})
                                .add_floats("f", std::vector<float>{4, 5, 6})
                                .serialize();
  const auto view = ExampleParser({"i", "f"}).parse(bytes);
  std::array<std::int64_t, 2> ints{};
  std::array<float, 2> floats{};
  EXPECT_EQ(view[0].copy_to(ints), 3U);
  EXPECT_EQ(view[1].copy_to(floats), 3U);
  EXPECT_THAT(ints, ElementsAre(1, 2));
  EXPECT_THAT(floats, ElementsAre(4, 5));
  EXPECT_EQ(view[0].count(), 3U);
  EXPECT_EQ(view[1].count(), 3U);
}

TEST(ExampleParser, ThrowsDataLossWithTheOffsetWhereALengthGoesTooFar) {
  std::string bytes = ExampleBuilder().add_bytes("image", "pixels").serialize();
  bytes[3] = 100;  // the length of the map entry
  try {
    ExampleParser({"image"}).parse(bytes);
    FAIL();
  } catch (const DataLoss& error) {
    EXPECT_THAT(error.what(), HasSubstr("offset 4: length 100"));
  }
}

TEST(ExampleParser, NeverReadsBeyondATruncatedExample) {
  const std::string bytes = sample_message().SerializeAsString();
  const ExampleParser parser({"image", "label", "score"});
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    // On the heap and exactly as long, so that a sanitizer sees one byte too far.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW(parser.parse({cut.data(), cut.size()}), DataLoss) << length;
  }
}

TEST(ExampleParser, RefusesGroupsNestedWithoutEnd) {
  EXPECT_THROW(ExampleParser({"k"}).parse(std::string(100'000, '\x4B')), DataLoss);
}

TEST(ExampleParser, RefusesAKeyAskedForTwice) {
  EXPECT_THROW(ExampleParser({"a", "a"}), InvalidArgument);
}

TEST(ExampleParser, SaysWhichKindWasFoundWhereAValueIsMissing) {
  const std::string bytes = ExampleBuilder().add_bytes("k", "text").serialize();
  const auto view = ExampleParser({"k"}).parse(bytes);
  EXPECT_THROW(view[0].first_int64(), DataLoss);
  EXPECT_THROW(view[0].first_float(), DataLoss);
  EXPECT_TRUE(values<std::int64_t>(view[0]).empty());
}

void expect_same(const proto::Feature& feature, const FeatureView& view) {
  const auto& ints = feature.int64_list().value();
  const auto& floats = feature.float_list().value();
  const auto& strings = feature.bytes_list().value();
  EXPECT_EQ(static_cast<int>(view.kind()), static_cast<int>(feature.kind_case()));
  EXPECT_EQ(values<std::int64_t>(view), std::vector<std::int64_t>(ints.begin(), ints.end()));
  const auto bits = [](const auto& list) {  // compared as bits, since NaN is not equal to itself
    std::vector<std::uint32_t> out;
    for (const float value : list) out.push_back(std::bit_cast<std::uint32_t>(value));
    return out;
  };
  EXPECT_EQ(bits(values<float>(view)), bits(floats));
  EXPECT_EQ(values<std::string_view>(view),
            std::vector<std::string_view>(strings.begin(), strings.end()));
}

TEST(ExampleParser, AgreesWithProtobufOnEveryMutantThatProtobufReads) {
  const std::string original = ExampleBuilder()
                                   .add_bytes("a", "one")
                                   .add_bytes("a", "two")
                                   .add_ints("b", std::vector<std::int64_t>{1, -1, 300})
                                   .add_floats("c", std::vector<float>{1, 2})
                                   .serialize();
  const google::protobuf::LogSilencer quiet;  // it tells of every key that is not UTF-8
  int agreed = 0;
  for (std::uint64_t mutant = 0; mutant < 50'000; ++mutant) {
    Random random(/*seed=*/11, 0, mutant);
    std::string bytes = original;
    for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    }
    proto::Example message;
    if (!message.ParseFromString(bytes)) continue;
    const auto keys = example_keys(bytes);
    ASSERT_EQ(keys.size(), message.features().feature().size());
    const auto view = ExampleParser(keys).parse(bytes);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      expect_same(message.features().feature().at(keys[i]), view[i]);
    }
    ++agreed;
  }
  EXPECT_GT(agreed, 1000);
}

TEST(SequenceExampleParser, ReadsContextAndSteps) {
  SequenceExampleBuilder builder;
  builder.context().add_int("length", 2);
  builder.add_step("words", std::vector<std::string_view>{"to", "be"})
      .add_step("words", std::vector<std::string_view>{"or"});
  const std::string bytes = builder.serialize();

  SequenceExampleView view;
  SequenceExampleParser({"length"}, {"words", "absent"}).parse(bytes, view);
  EXPECT_EQ(view.context[0].first_int64(), 2);
  ASSERT_TRUE(view.lists[0].present());
  const auto steps = view.lists[0].steps();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_THAT(values<std::string_view>(steps[0]), ElementsAre("to", "be"));
  EXPECT_THAT(values<std::string_view>(steps[1]), ElementsAre("or"));
  EXPECT_FALSE(view.lists[1].present());
}

TEST(ExampleKeys, ListsKeysSortedAndOnce) {
  EXPECT_THAT(example_keys(field(1, entry("z", "") + entry("a", "") + entry("z", ""))),
              ElementsAre("a", "z"));
  SequenceExampleBuilder builder;
  builder.context().add_int("c", 1);
  builder.add_step("l", std::vector<float>{1});
  const auto keys = sequence_example_keys(builder.serialize());
  EXPECT_THAT(keys.context, ElementsAre("c"));
  EXPECT_THAT(keys.lists, ElementsAre("l"));
}

}  // namespace
}  // namespace muster
