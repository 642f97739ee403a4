#include "muster/data/features/column_set.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/data/features/census_columns_internal.h"
#include "muster/data/records/example_builder.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_of(std::span<const FeatureColumn> columns) {
  std::vector<std::string> names;
  for (const auto& column : columns) names.push_back(column.name());
  return names;
}

void expect_same(const FeatureValue& left, const FeatureValue& right) {
  ASSERT_EQ(left.index(), right.index());
  if (const auto* tensor = std::get_if<at::Tensor>(&left)) {
    EXPECT_TRUE(torch::equal(*tensor, std::get<at::Tensor>(right)));
    return;
  }
  const auto& ids = std::get<RaggedColumn>(left);
  const auto& others = std::get<RaggedColumn>(right);
  EXPECT_TRUE(torch::equal(ids.values, others.values));
  EXPECT_TRUE(torch::equal(ids.row_splits, others.row_splits));
  ASSERT_EQ(ids.weights.defined(), others.weights.defined());
  if (ids.weights.defined()) {
    EXPECT_TRUE(torch::equal(ids.weights, others.weights));
  }
}

void expect_same(const std::vector<ColumnPiece>& left, const std::vector<ColumnPiece>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].first, right[i].first);
    EXPECT_EQ(left[i].count, right[i].count);
    expect_same(left[i].value, right[i].value);
  }
}

TEST(ColumnSet, OfTheCensusModelHasItsNamesAndSizes) {
  const auto columns = internal::census_columns();
  const ColumnSet wide(columns.wide, ColumnUse::kLinear);
  EXPECT_THAT(
      names_of(wide.columns()),
      ElementsAre("age_bucketized", "age_bucketized_X_occupation_X_race", "education",
                  "education_X_occupation", "gender", "marital_status", "native_country",
                  "native_country_X_occupation", "occupation", "relationship", "workclass"));
  std::int64_t buckets = 0;
  for (const auto& column : wide.columns()) buckets += column.num_buckets();
  EXPECT_EQ(buckets, 1'020'251);
  const ColumnSet deep(columns.deep, ColumnUse::kInputLayer);
  std::int64_t width = 0;
  for (const auto& column : deep.columns()) width += column.width();
  EXPECT_EQ(width, 66);
}

TEST(ColumnSet, PutsNeighboursWithoutVariablesIntoOneBlock) {
  const auto columns = internal::census_columns();
  const ColumnSet deep(columns.deep, ColumnUse::kInputLayer);
  const auto pieces = deep.pieces(internal::census_features(7));
  // age ... marital_status_indicator, the embeddings of native_country and occupation, the rest.
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces[0].count, 8U);
  EXPECT_EQ(std::get<at::Tensor>(pieces[0].value).sizes(), (at::IntArrayRef{7, 30}));
  EXPECT_EQ(pieces[1].first, 8U);
  EXPECT_EQ(std::get<RaggedColumn>(pieces[1].value).rows(), 7);
  EXPECT_EQ(pieces[2].first, 9U);
  EXPECT_EQ(pieces[3].first, 10U);
  EXPECT_EQ(pieces[3].count, 3U);
  EXPECT_EQ(std::get<at::Tensor>(pieces[3].value).sizes(), (at::IntArrayRef{7, 20}));
}

TEST(ColumnSet, FillsABlockInTheOrderOfNames) {
  const ColumnSet set(
      {numeric_column("z"), indicator_column(categorical_column_with_identity("b", 2)),
       bucketized_column(numeric_column("a"), {0})},
      ColumnUse::kInputLayer);
  const auto pieces = set.pieces({{"z", torch::tensor({5, 6})},
                                  {"b", torch::tensor({1, 0})},
                                  {"a", torch::tensor({-1.0F, 1.0F})}});
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_TRUE(torch::equal(
      std::get<at::Tensor>(pieces[0].value),
      torch::tensor({{1.0F, 0.0F, 0.0F, 1.0F, 5.0F}, {0.0F, 1.0F, 1.0F, 0.0F, 6.0F}})));
}

TEST(ColumnSet, GivesColumnsOfOneIdARowTheSameSplits) {
  const auto columns = internal::census_columns();
  const auto pieces =
      ColumnSet(columns.wide, ColumnUse::kLinear).pieces(internal::census_features(5));
  ASSERT_EQ(pieces.size(), 11U);
  const auto& splits = std::get<RaggedColumn>(pieces[0].value).row_splits;
  EXPECT_TRUE(torch::equal(splits, torch::arange(6)));
  for (const auto& piece : pieces) {
    EXPECT_TRUE(std::get<RaggedColumn>(piece.value).row_splits.is_same(splits));
  }
}

TEST(ColumnSet, ComputesOnceWhatAnotherSetNeedsToo) {
  int calls = 0;
  const auto x = numeric_column("x", {.normalizer = [&](const at::Tensor& raw) {
                                  ++calls;
                                  return raw * 2;
                                }});
  const auto buckets = bucketized_column(x, {0, 10});
  const auto word = categorical_column_with_hash_bucket("word", 10);
  const ColumnSet linear({buckets, word}, ColumnUse::kLinear);
  const ColumnSet deep({x, embedding_column(word, 2)}, ColumnUse::kInputLayer);
  const Features features{{"x", torch::tensor({-3, 7})},
                          {"word", StringColumn(std::vector<std::string>{"a", "b"}, {2})}};
  ColumnCache cache(features);
  const auto linear_pieces = linear.pieces(cache);
  const auto deep_pieces = deep.pieces(cache);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(std::get<RaggedColumn>(linear_pieces[0].value)
                  .values.is_same(std::get<RaggedColumn>(deep_pieces[0].value).values));
  expect_same(linear_pieces, linear.pieces(features));
  expect_same(deep_pieces, deep.pieces(features));
}

TEST(ColumnSet, ReadsTheRowsOfASlice) {
  const auto columns = internal::census_columns();
  const auto features = internal::census_features(10);
  Features ragged = features;
  ragged.set("occupation", StringColumn::ragged({"a", "b", "c", "d", "e"},
                                                {0, 0, 1, 1, 3, 3, 3, 4, 5, 5, 5}, nullptr));
  for (const auto& all : {features, ragged}) {
    for (const auto use : {ColumnUse::kLinear, ColumnUse::kInputLayer}) {
      const ColumnSet set(use == ColumnUse::kLinear ? columns.wide : columns.deep, use);
      const auto whole = set.pieces(all);
      const auto part = set.pieces(all.slice(3, 8));
      Features of_whole;
      for (std::size_t i = 0; i < whole.size(); ++i)
        of_whole.add(std::to_string(i), whole[i].value);
      const auto sliced = of_whole.slice(3, 8);
      for (std::size_t i = 0; i < part.size(); ++i) {
        expect_same(part[i].value, sliced.at(std::to_string(i)));
      }
    }
  }
}

// The rows as Examples, parsed with the specs of the columns.
Features as_examples(const Features& rows, const FeatureColumnList& columns) {
  auto examples = std::make_shared<std::vector<std::string>>();
  for (std::int64_t row = 0; row < rows.batch_size(); ++row) {
    ExampleBuilder example;
    for (const auto& [key, value] : rows) {
      if (const auto* strings = std::get_if<StringColumn>(&value)) {
        if (!strings->row(row)[0].empty()) example.add_bytes(key, strings->row(row)[0]);
      } else {
        example.add_float(key, std::get<at::Tensor>(value)[row].item<float>());
      }
    }
    examples->push_back(example.serialize());
  }
  const std::vector<std::string_view> views(examples->begin(), examples->end());
  const auto specs = make_parse_example_spec(columns);
  return to_features(ExampleDecoder(specs).decode(views), specs, examples);
}

TEST(ColumnSet, GivesTheSameForRowsOfCsvAndForExamples) {
  const auto columns = internal::census_columns();
  auto rows = internal::census_features(6);
  for (const bool with_missing : {false, true}) {
    if (with_missing) {
      rows.set("occupation",
               StringColumn(std::vector<std::string>{"a", "", "b", "c", "", "d"}, {6}));
    }
    const ColumnSet wide(columns.wide, ColumnUse::kLinear);
    const auto pieces = wide.pieces(as_examples(rows, columns.wide));
    expect_same(pieces, wide.pieces(rows));
    const auto& splits = std::get<RaggedColumn>(pieces[0].value).row_splits;
    EXPECT_TRUE(std::get<RaggedColumn>(pieces[10].value).row_splits.is_same(splits));
    const ColumnSet deep(columns.deep, ColumnUse::kInputLayer);
    expect_same(deep.pieces(as_examples(rows, columns.deep)), deep.pieces(rows));
  }
}

TEST(ColumnSet, FindsAgainWhatItPrepared) {
  const auto columns = internal::census_columns();
  const auto features = internal::census_features(10);
  const ColumnSet wide(columns.wide, ColumnUse::kLinear);
  const ColumnSet deep(columns.deep, ColumnUse::kInputLayer);
  Features prepared = deep.prepare(wide.prepare(features));
  EXPECT_TRUE(prepared.contains("occupation"));
  // Without the raw features only the prepared pieces are left.
  for (const auto& [name, value] : features) prepared.remove(name);
  expect_same(wide.pieces(prepared), wide.pieces(features));
  // Another set of the same columns finds them too, also after a slice and a move.
  const ColumnSet other(internal::census_columns().deep, ColumnUse::kInputLayer);
  const auto moved = prepared.slice(2, 6).to(at::kCPU);
  expect_same(other.pieces(moved), other.pieces(features.slice(2, 6)));
  // The same columns for another use, or with other sizes, do not.
  const FeatureColumnList numbers{numeric_column("age")};
  const auto age = ColumnSet(numbers, ColumnUse::kLinear).prepare(features).slice(0, 2);
  EXPECT_NO_THROW(ColumnSet(numbers, ColumnUse::kInputLayer).pieces(age));
  EXPECT_THROW(ColumnSet({numeric_column("age", {.shape = {2}})}, ColumnUse::kLinear).pieces(age),
               InvalidArgument);
}

TEST(ColumnSet, PreparesAgainWithoutHarm) {
  const ColumnSet set({numeric_column("x")}, ColumnUse::kInputLayer);
  const Features once = set.prepare({{"x", torch::tensor({1, 2})}});
  EXPECT_EQ(set.prepare(once).size(), once.size());
}

TEST(ColumnSet, WorksOnABatchWithoutRows) {
  const auto columns = internal::census_columns();
  const auto features = internal::census_features(3).slice(0, 0);
  for (const auto& piece : ColumnSet(columns.wide, ColumnUse::kLinear).pieces(features)) {
    EXPECT_EQ(rows_of(piece.value), 0);
  }
  for (const auto& piece : ColumnSet(columns.deep, ColumnUse::kInputLayer).pieces(features)) {
    EXPECT_EQ(rows_of(piece.value), 0);
  }
}

TEST(ColumnSet, RejectsColumnsThatItHasNoPlaceFor) {
  const auto categorical = categorical_column_with_identity("x", 2);
  EXPECT_THROW(ColumnSet({}, ColumnUse::kLinear), InvalidArgument);
  EXPECT_THAT(message_of([&] {
                ColumnSet({categorical, numeric_column("x")}, ColumnUse::kLinear);
              }),
              HasSubstr("two columns have the name \"x\""));
  EXPECT_THAT(message_of([&] { ColumnSet({categorical}, ColumnUse::kInputLayer); }),
              HasSubstr("wrap it in an indicator_column or an embedding_column"));
  EXPECT_THAT(
      message_of([&] { ColumnSet({embedding_column(categorical, 2)}, ColumnUse::kLinear); }),
      HasSubstr("column \"x_embedding\" is an embedding"));
  const auto sequence = sequence_categorical_column_with_identity("x", 2);
  EXPECT_THROW(ColumnSet({sequence}, ColumnUse::kLinear), InvalidArgument);
  EXPECT_THROW(ColumnSet({sequence_numeric_column("x")}, ColumnUse::kInputLayer), InvalidArgument);
  EXPECT_THROW(embedding_column(sequence, 2), InvalidArgument);
}

}  // namespace
}  // namespace muster
