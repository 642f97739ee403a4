#include "muster/data/records/parse_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/records/example_builder.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInt64 = FeatureKind::kInt64;
constexpr auto kFloat = FeatureKind::kFloat;
constexpr auto kBytes = FeatureKind::kBytes;

TEST(ExampleDecoder, FillsFlatColumnsFromABatch) {
  const std::string first = ExampleBuilder()
                                .add_bytes("image", "abc")
                                .add_int("label", 3)
                                .add_floats("box", std::vector<float>{1, 2, 3, 4})
                                .add_bytes("tags", "red")
                                .add_bytes("tags", "round")
                                .serialize();
  const std::string second = ExampleBuilder()
                                 .add_bytes("image", "def")
                                 .add_int("label", 5)
                                 .add_floats("box", std::vector<float>{5, 6, 7, 8})
                                 .serialize();
  const ExampleDecoder decoder({{"image", FixedLen{.kind = kBytes}},
                                {"label", FixedLen{.kind = kInt64}},
                                {"box", FixedLen{.kind = kFloat, .shape = {2, 2}}},
                                {"tags", VarLen{.kind = kBytes}}});
  const std::vector<std::string_view> batch{first, second};

  const auto columns = decoder.decode(batch);
  EXPECT_EQ(columns.rows, 2U);
  EXPECT_THAT(columns["image"].bytes(), ElementsAre("abc", "def"));
  EXPECT_THAT(columns["label"].int64s(), ElementsAre(3, 5));
  EXPECT_THAT(columns["box"].floats(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(columns["tags"].bytes(), ElementsAre("red", "round"));
  EXPECT_THAT(columns["tags"].row_splits, ElementsAre(0, 2, 2));
}

TEST(ExampleDecoder, PutsDefaultsWhereAFeatureIsMissing) {
  const FeatureSpecs specs{
      {"label", FixedLen{.kind = kInt64, .default_value = std::vector<std::int64_t>{-1}}},
      {"box", FixedLen{.kind = kFloat, .shape = {3}, .default_value = std::vector<float>{0.5F}}},
      {"pair", FixedLen{.kind = kFloat, .shape = {2}, .default_value = std::vector<float>{1, 2}}},
      {"name", FixedLen{.kind = kBytes, .default_value = std::vector<std::string>{"nobody"}}}};
  const auto columns = parse_example(ExampleBuilder().serialize(), specs);
  EXPECT_THAT(columns["label"].int64s(), ElementsAre(-1));
  EXPECT_THAT(columns["box"].floats(), ElementsAre(0.5F, 0.5F, 0.5F));
  EXPECT_THAT(columns["pair"].floats(), ElementsAre(1, 2));
  EXPECT_THAT(columns["name"].bytes(), ElementsAre("nobody"));
}

TEST(ExampleDecoder, NamesTheKeyOfAMissingFeature) {
  const FeatureSpecs specs{{"label", FixedLen{.kind = kInt64}}};
  EXPECT_THAT(message_of([&] { parse_example("", specs); }),
              HasSubstr("feature 'label' is missing: wanted int64"));
}

TEST(ExampleDecoder, NamesFoundAndWantedKind) {
  const FeatureSpecs specs{{"label", FixedLen{.kind = kInt64}}};
  const std::string bytes = ExampleBuilder().add_float("label", 1).serialize();
  EXPECT_THAT(message_of([&] { parse_example(bytes, specs); }),
              HasSubstr("feature 'label' holds float values, wanted int64"));
  const FeatureSpecs variable{{"label", VarLen{.kind = kBytes}}};
  EXPECT_THAT(message_of([&] { parse_example(bytes, variable); }), HasSubstr("wanted bytes"));
}

TEST(ExampleDecoder, TakesWholeNumbersWhereFloatsAreWanted) {
  const FeatureSpecs specs{{"age", FixedLen{.kind = kFloat}},
                           {"pair", FixedLen{.kind = kFloat, .shape = {2}}},
                           {"some", VarLen{.kind = kFloat}}};
  const std::string bytes = ExampleBuilder()
                                .add_int("age", 39)
                                .add_ints("pair", std::vector<std::int64_t>{-1, 2})
                                .add_int("some", 7)
                                .serialize();
  const auto columns = parse_example(bytes, specs);
  EXPECT_THAT(columns["age"].floats(), ElementsAre(39));
  EXPECT_THAT(columns["pair"].floats(), ElementsAre(-1, 2));
  EXPECT_THAT(columns["some"].floats(), ElementsAre(7));
}

TEST(ExampleDecoder, NamesFoundAndWantedCount) {
  const FeatureSpecs specs{{"box", FixedLen{.kind = kFloat, .shape = {4}}}};
  const std::string bytes = ExampleBuilder().add_float("box", 1).serialize();
  EXPECT_THAT(message_of([&] { parse_example(bytes, specs); }),
              HasSubstr("feature 'box' holds 1 float values, wanted 4"));
}

TEST(ExampleDecoder, SaysWhichExampleOfABatchFailed) {
  const ExampleDecoder decoder({{"a", FixedLen{.kind = kInt64}}});
  const std::string good = ExampleBuilder().add_int("a", 1).serialize();
  const std::vector<std::string_view> batch{good, ""};
  EXPECT_THAT(message_of([&] { decoder.decode(batch); }), HasSubstr("example 1 of the batch"));
  EXPECT_THAT(message_of([&] {
                decoder.decode(batch, [](std::size_t row) {
                  return fmt::format("x.tfrecords record {}", row);
                });
              }),
              HasSubstr("x.tfrecords record 1: feature 'a'"));
}

TEST(ExampleDecoder, LeavesColumnsAsTheyWereAfterAnError) {
  const ExampleDecoder decoder({{"a", VarLen{.kind = kInt64}}, {"b", FixedLen{.kind = kFloat}}});
  auto columns = decoder.empty_columns();
  const std::string good = ExampleBuilder().add_int("a", 1).add_float("b", 2).serialize();
  const std::string bad = ExampleBuilder().add_int("a", 9).serialize();
  decoder.append(good, columns);
  EXPECT_THROW(decoder.append(bad, columns), InvalidArgument);
  decoder.append(good, columns);
  EXPECT_EQ(columns.rows, 2U);
  EXPECT_THAT(columns["a"].int64s(), ElementsAre(1, 1));
  EXPECT_THAT(columns["a"].row_splits, ElementsAre(0, 1, 2));
  EXPECT_THAT(columns["b"].floats(), ElementsAre(2, 2));
}

TEST(ExampleDecoder, KeepsStringsOfAFeatureWrittenInPieces) {
  // Protobuf merges the two bytes lists of this feature: "one" and "two".
  const std::string feature("\x0A\x05\x0A\x03one\x0A\x05\x0A\x03two", 14);
  const std::string entry = std::string("\x0A\x01k\x12\x0E", 5) + feature;
  const std::string features = std::string("\x0A\x13", 2) + entry;
  const std::string bytes = std::string("\x0A\x15", 2) + features;
  const ExampleDecoder decoder({{"k", VarLen{.kind = kBytes}}});
  const std::vector<std::string_view> batch{bytes, bytes};
  EXPECT_THAT(decoder.decode(batch)["k"].bytes(), ElementsAre("one", "two", "one", "two"));
}

TEST(ExampleDecoder, RefusesSpecsThatCannotBeMet) {
  EXPECT_THROW(ExampleDecoder({{"a", FixedLen{.kind = kInt64, .shape = {-1}}}}), InvalidArgument);
  EXPECT_THROW(ExampleDecoder({{"a", VarLen{}}, {"a", VarLen{}}}), InvalidArgument);
  EXPECT_THROW(
      ExampleDecoder({{"a", FixedLen{.kind = kInt64, .default_value = std::vector<float>{1}}}}),
      InvalidArgument);
  EXPECT_THROW(ExampleDecoder({{"a", FixedLen{.kind = kFloat,
                                              .shape = {3},
                                              .default_value = std::vector<float>{1, 2}}}}),
               InvalidArgument);
}

TEST(ParsedColumns, NameTheColumnThatIsNotThereOrOfAnotherType) {
  const FeatureSpecs specs{{"a", VarLen{.kind = kInt64}}};
  const auto columns = parse_example("", specs);
  EXPECT_THROW(columns["b"], NotFound);
  EXPECT_THAT(message_of([&] { columns["a"].floats(); }),
              HasSubstr("'a' holds int64 values, not float"));
}

TEST(SequenceExampleDecoder, FillsStepsOfFixedAndVariableLength) {
  SequenceExampleBuilder builder;
  builder.context().add_int("id", 7);
  builder.add_step("point", std::vector<float>{1, 2})
      .add_step("point", std::vector<float>{3, 4})
      .add_step("words", std::vector<std::string_view>{"to", "be"})
      .add_step("words", std::vector<std::string_view>{});
  const std::string bytes = builder.serialize();
  const SequenceExampleDecoder decoder(
      {{"id", FixedLen{.kind = kInt64}}},
      {{"point", FixedLenSequence{.kind = kFloat, .shape = {2}}},
       {"words", VarLen{.kind = kBytes}},
       {"maybe", FixedLenSequence{.kind = kInt64, .allow_missing = true}}});
  const std::vector<std::string_view> batch{bytes, bytes};

  const auto columns = decoder.decode(batch);
  EXPECT_THAT(columns["id"].int64s(), ElementsAre(7, 7));
  EXPECT_THAT(columns["point"].floats(), ElementsAre(1, 2, 3, 4, 1, 2, 3, 4));
  EXPECT_THAT(columns["point"].row_splits, ElementsAre(0, 2, 4));
  EXPECT_THAT(columns["words"].bytes(), ElementsAre("to", "be", "to", "be"));
  EXPECT_THAT(columns["words"].row_splits, ElementsAre(0, 2, 4));
  EXPECT_THAT(columns["words"].step_splits, ElementsAre(0, 2, 2, 4, 4));
  EXPECT_THAT(columns["maybe"].row_splits, ElementsAre(0, 0, 0));
}

TEST(SequenceExampleDecoder, NamesListStepAndCount) {
  SequenceExampleBuilder builder;
  builder.add_step("point", std::vector<float>{1, 2}).add_step("point", std::vector<float>{3});
  const std::string bytes = builder.serialize();
  const std::vector<std::string_view> batch{bytes};
  const SequenceExampleDecoder counted({},
                                       {{"point", FixedLenSequence{.kind = kFloat, .shape = {2}}}});
  EXPECT_THAT(message_of([&] { counted.decode(batch); }),
              HasSubstr("feature list 'point' holds 1 float values in step 1, wanted 2"));
  const SequenceExampleDecoder absent({}, {{"words", FixedLenSequence{.kind = kBytes}}});
  EXPECT_THAT(message_of([&] { absent.decode(batch); }),
              HasSubstr("feature list 'words' is missing"));
}

}  // namespace
}  // namespace muster
