#include "muster/data/features/sequence_input.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;

using SequenceVocabulary = std::vector<std::string>;

StringColumn sequence_words(std::vector<std::string_view> values,
                            std::vector<std::int64_t> splits) {
  return StringColumn::ragged(std::move(values), std::move(splits), nullptr);
}

RaggedColumn sequence_values(const at::Tensor& values, std::vector<std::int64_t> splits) {
  return {.values = values, .row_splits = torch::tensor(splits)};
}

TEST(SequenceInput, PadsToTheLongestExample) {
  const auto word =
      sequence_categorical_column_with_vocabulary_list("word", SequenceVocabulary{"a", "b"});
  const auto size = sequence_numeric_column("size", {.default_value = {-9}});
  EXPECT_TRUE(word.is_sequence());
  EXPECT_EQ(word.num_buckets(), 2);
  EXPECT_EQ(size.width(), 1);
  const Features features{{"word", sequence_words({"b", "?", "a"}, {0, 2, 2, 3})},
                          {"size", sequence_values(torch::tensor({1, 2, 3}), {0, 2, 2, 3})}};
  const auto input = sequence_input({word, size}, features);
  // A word that is not known stays a step.
  EXPECT_TRUE(torch::equal(input.ids.tensor("word"), torch::tensor({{1, -1}, {-1, -1}, {0, -1}})));
  EXPECT_TRUE(torch::equal(
      input.values, torch::tensor({{{1.0F}, {2.0F}}, {{-9.0F}, {-9.0F}}, {{3.0F}, {-9.0F}}})));
  EXPECT_TRUE(torch::equal(input.lengths, torch::tensor({2, 0, 1})));
}

TEST(SequenceInput, TakesANumericColumnsValuesInGroups) {
  const auto pair = sequence_numeric_column(
      "pair", {.shape = {2}, .normalizer = [](const at::Tensor& x) { return x * 10; }});
  const auto single = sequence_numeric_column("single");
  const auto flat = sequence_values(torch::tensor({1, 2, 3, 4, 5, 6}), {0, 4, 6});
  const auto steps = sequence_values(torch::tensor({{1, 2}, {3, 4}, {5, 6}}), {0, 2, 3});
  const auto other = sequence_values(torch::tensor({7, 8, 9}), {0, 2, 3});
  const auto wanted = torch::tensor(
      {{{10.0F, 20.0F, 7.0F}, {30.0F, 40.0F, 8.0F}}, {{50.0F, 60.0F, 9.0F}, {0.0F, 0.0F, 0.0F}}});
  for (const auto& value : {flat, steps}) {
    const auto input = sequence_input({single, pair}, {{"pair", value}, {"single", other}});
    EXPECT_TRUE(torch::equal(input.values, wanted)) << input.values;
    EXPECT_TRUE(input.ids.empty());
  }
  EXPECT_THAT(
      message_of([&] {
        sequence_input({pair}, {{"pair", sequence_values(torch::tensor({1, 2, 3}), {0, 2, 3})}});
      }),
      HasSubstr("row 1 of the feature has 1 values, which are no whole steps of 2"));
}

TEST(SequenceInput, EndsDenseRowsBeforeTheirPadding) {
  const auto word = sequence_categorical_column_with_hash_bucket("word", 10);
  const auto id = sequence_categorical_column_with_identity("id", 5);
  const StringColumn words(SequenceVocabulary{"a", "", "b", "c", "", ""}, {2, 3});
  const auto ids = torch::tensor({{0, -1, 2}, {3, -1, -1}});
  const auto input = sequence_input({word, id}, {{"word", words}, {"id", ids}});
  EXPECT_TRUE(torch::equal(input.lengths, torch::tensor({3, 1})));
  EXPECT_TRUE(torch::equal(input.ids.tensor("word"), torch::tensor({{9, -1, 2}, {2, -1, -1}})));
  EXPECT_TRUE(torch::equal(input.ids.tensor("id"), ids));
}

TEST(SequenceInput, KeepsAnUnknownWordAtTheEndOfADenseRow) {
  const auto word =
      sequence_categorical_column_with_vocabulary_list("word", SequenceVocabulary{"a", "b"});
  const StringColumn words(SequenceVocabulary{"a", "?", "b", ""}, {2, 2});
  const auto input = sequence_input({word}, {{"word", words}});
  EXPECT_TRUE(torch::equal(input.lengths, torch::tensor({2, 1})));
  EXPECT_TRUE(torch::equal(input.ids.tensor("word"), torch::tensor({{0, -1}, {1, -1}})));
}

TEST(SequenceInput, TakesAnEmptyWordOfARaggedFeatureAsAStep) {
  const auto word =
      sequence_categorical_column_with_vocabulary_list("word", SequenceVocabulary{"a", "b"});
  const auto input = sequence_input({word}, {{"word", sequence_words({"a", ""}, {0, 1, 2})}});
  EXPECT_TRUE(torch::equal(input.lengths, torch::tensor({1, 1})));
}

TEST(SequenceInput, ReadsAVocabularyFileAndDenseNumbers) {
  const testing::TempDir dir;
  const auto file = dir.path() / "words.txt";
  write_file_atomically(file, "x\ny\n", /*durable=*/false);
  const auto word = sequence_categorical_column_with_vocabulary_file("word", file);
  const auto number = sequence_numeric_column("number");
  const auto input = sequence_input({word, number}, {{"word", sequence_words({"y", "x"}, {0, 2})},
                                                     {"number", torch::tensor({{1, 2}})}});
  EXPECT_TRUE(torch::equal(input.ids.tensor("word"), torch::tensor({{1, 0}})));
  EXPECT_TRUE(torch::equal(input.values, torch::tensor({{{1.0F}, {2.0F}}})));
}

TEST(SequenceInput, RejectsColumnsThatDisagree) {
  const auto a = sequence_numeric_column("a");
  const auto b = sequence_categorical_column_with_identity("b", 5);
  const Features features{{"a", sequence_values(torch::tensor({1, 2, 3}), {0, 2, 3})},
                          {"b", sequence_values(torch::tensor({1, 2, 3}), {0, 1, 3})}};
  EXPECT_THAT(message_of([&] {
                sequence_input({a, b}, features);
              }),
              HasSubstr("the columns \"a\" and \"b\" have 2 and 1 steps in row 0"));
  EXPECT_THAT(message_of([&] { sequence_input({numeric_column("a")}, features); }),
              HasSubstr("column \"a\" is not a sequence"));
  EXPECT_THROW(sequence_input({}, features), InvalidArgument);
  EXPECT_THROW(sequence_input({sequence_numeric_column("c")}, features), NotFound);
}

TEST(SequenceColumns, ParseAnyNumberOfValues) {
  const auto specs =
      make_parse_example_spec({sequence_numeric_column("a", {.shape = {2}}),
                               sequence_categorical_column_with_identity("b", 2),
                               sequence_categorical_column_with_hash_bucket("c", 2)});
  ASSERT_EQ(specs.size(), 3U);
  EXPECT_EQ(std::get<VarLen>(specs[0].second).kind, FeatureKind::kFloat);
  EXPECT_EQ(std::get<VarLen>(specs[1].second).kind, FeatureKind::kInt64);
  EXPECT_EQ(std::get<VarLen>(specs[2].second).kind, FeatureKind::kBytes);
}

}  // namespace
}  // namespace muster
