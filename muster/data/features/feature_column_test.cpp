#include "muster/data/features/feature_column.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cstdlib>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/data/features/column_set.h"
#include "muster/platform/stores/register_stores.h"
#include "muster/testing/fake_gcs.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using Rows = std::vector<std::vector<std::int64_t>>;
using Words = std::vector<std::string>;

StringColumn words(Words values, std::vector<std::int64_t> shape) {
  return {std::move(values), std::move(shape)};
}

StringColumn words(Words values) {
  const auto rows = static_cast<std::int64_t>(values.size());
  return {std::move(values), {rows}};
}

// The literals outlive every test.
StringColumn ragged_words(std::vector<std::string_view> values, std::vector<std::int64_t> splits) {
  return StringColumn::ragged(std::move(values), std::move(splits), nullptr);
}

RaggedColumn ragged(const at::Tensor& values, std::vector<std::int64_t> splits) {
  return {.values = values, .row_splits = torch::tensor(splits)};
}

RaggedColumn ids_value(const FeatureColumn& column, const Features& features,
                       ColumnUse use = ColumnUse::kLinear) {
  const auto pieces = ColumnSet({column}, use).pieces(features);
  EXPECT_EQ(pieces.size(), 1U);
  return std::get<RaggedColumn>(pieces.at(0).value);
}

Rows rows_of_ids(const RaggedColumn& ids) {
  Rows rows;
  for (std::int64_t row = 0; row < ids.rows(); ++row) {
    auto& out = rows.emplace_back();
    for (auto i = ids.row_splits[row].item<std::int64_t>();
         i < ids.row_splits[row + 1].item<std::int64_t>(); ++i) {
      out.push_back(ids.values[i].item<std::int64_t>());
    }
  }
  return rows;
}

Rows ids_of(const FeatureColumn& column, const Features& features) {
  return rows_of_ids(ids_value(column, features));
}

at::Tensor numbers_of(const FeatureColumn& column, const Features& features) {
  const auto pieces = ColumnSet({column}, ColumnUse::kInputLayer).pieces(features);
  return std::get<at::Tensor>(pieces.at(0).value);
}

void expect_numbers(const at::Tensor& numbers, const at::Tensor& wanted) {
  ASSERT_EQ(numbers.scalar_type(), at::kFloat);
  EXPECT_TRUE(torch::equal(numbers, wanted)) << numbers << "\nbut wanted\n" << wanted;
}

VarLen var_len(const FeatureColumn& column, const std::string& key) {
  for (const auto& [name, spec] : column.parse_specs()) {
    if (name == key) return std::get<VarLen>(spec);
  }
  ADD_FAILURE() << "no spec for " << key;
  return {};
}

TEST(NumericColumn, GivesNumbersOfAnyTypeAsFloats) {
  const auto column = numeric_column("x");
  EXPECT_EQ(column.name(), "x");
  EXPECT_TRUE(column.is_dense());
  EXPECT_FALSE(column.is_categorical());
  EXPECT_EQ(column.width(), 1);
  const auto wanted = torch::tensor({{1.0F}, {0.0F}});
  for (const auto type : {at::kFloat, at::kDouble, at::kInt, at::kLong, at::kBool, at::kShort}) {
    expect_numbers(numbers_of(column, {{"x", torch::tensor({1, 0}).to(type)}}), wanted);
    expect_numbers(numbers_of(column, {{"x", torch::tensor({{1}, {0}}).to(type)}}), wanted);
  }
}

TEST(NumericColumn, FlattensItsShapeAndReadsTensorsThatAreNotContiguous) {
  const auto column = numeric_column("x", {.shape = {2, 2}});
  EXPECT_EQ(column.width(), 4);
  const auto raw = torch::arange(8).view({2, 2, 2});
  expect_numbers(numbers_of(column, {{"x", raw.transpose(1, 2)}}),
                 torch::tensor({{0.0F, 2.0F, 1.0F, 3.0F}, {4.0F, 6.0F, 5.0F, 7.0F}}));
}

TEST(NumericColumn, CastsAfterTheNormalizer) {
  at::ScalarType seen = at::kFloat;
  std::int64_t dimensions = 0;
  const auto column = numeric_column("x", {.normalizer = [&](const at::Tensor& x) {
                                       seen = x.scalar_type();
                                       dimensions = x.dim();
                                       return (x - 3) * 2;
                                     }});
  expect_numbers(numbers_of(column, {{"x", torch::tensor({3, 5}, at::kInt)}}),
                 torch::tensor({{0.0F}, {4.0F}}));
  EXPECT_EQ(seen, at::kInt);
  EXPECT_EQ(dimensions, 2);
}

TEST(NumericColumn, ParsesAFixedShapeWithItsDefault) {
  const auto specs = numeric_column("x", {.shape = {2}, .default_value = {7}}).parse_specs();
  ASSERT_EQ(specs.size(), 1U);
  EXPECT_EQ(specs[0].first, "x");
  const auto& spec = std::get<FixedLen>(specs[0].second);
  EXPECT_EQ(spec.kind, FeatureKind::kFloat);
  EXPECT_THAT(spec.shape, ElementsAre(2));
  EXPECT_THAT(std::get<std::vector<float>>(spec.default_value.value()), ElementsAre(7.0F));
  EXPECT_FALSE(std::get<FixedLen>(numeric_column("x").parse_specs()[0].second).default_value);
}

TEST(NumericColumn, RejectsWhatCannotWork) {
  EXPECT_THROW(numeric_column(""), InvalidArgument);
  EXPECT_THAT(message_of([] {
                numeric_column("x", {.shape = {2, 0}});
              }),
              HasSubstr("numeric_column \"x\": every dimension must be positive: [2, 0]"));
  EXPECT_THROW(numeric_column("x", {.shape = {3}, .default_value = {1, 2}}), InvalidArgument);
  const auto column = numeric_column("x");
  EXPECT_THAT(message_of([&] {
                numbers_of(column, {{"y", torch::ones({2})}});
              }),
              HasSubstr("column \"x\" needs the feature \"x\"; there are: y"));
  EXPECT_THROW(numbers_of(column, {{"y", torch::ones({2})}}), NotFound);
  EXPECT_THAT(message_of([&] {
                numbers_of(column, {{"x", torch::ones({2, 3})}});
              }),
              HasSubstr("column \"x\" has shape [1], but the feature \"x\" is a Float tensor"));
  EXPECT_THAT(message_of([&] {
                numbers_of(column, {{"x", words({"1"})}});
              }),
              HasSubstr("but the feature \"x\" is strings [1]"));
  EXPECT_THROW(numbers_of(column, {{"x", ragged(torch::ones({2}), {0, 2})}}), InvalidArgument);
  const auto summing = numeric_column(
      "x", {.shape = {2}, .normalizer = [](const at::Tensor& x) { return x.sum(1); }});
  EXPECT_THAT(message_of([&] {
                numbers_of(summing, {{"x", torch::ones({2, 2})}});
              }),
              HasSubstr("the normalizer must keep the shape"));
  EXPECT_THROW(column.num_buckets(), InvalidArgument);
}

// TensorFlow's own test.
TEST(BucketizedColumn, FindsTheBucketOfEachNumber) {
  const auto column = bucketized_column(numeric_column("x", {.shape = {2}}), {0, 10, 100});
  const Features features{
      {"x", torch::tensor({{-5.0F, 10000.0F}, {150.0F, 10.0F}, {5.0F, 100.0F}})}};
  EXPECT_EQ(column.name(), "x_bucketized");
  EXPECT_EQ(column.num_buckets(), 8);
  // [[0, 3], [3, 2], [1, 3]], and the second number's buckets come after the first one's four.
  EXPECT_EQ(ids_of(column, features), (Rows{{0, 4 + 3}, {3, 4 + 2}, {1, 4 + 3}}));
  expect_numbers(
      numbers_of(column, features),
      torch::tensor({{1, 0, 0, 0, 0, 0, 0, 1}, {0, 0, 0, 1, 0, 0, 1, 0}, {0, 1, 0, 0, 0, 0, 0, 1}})
          .to(at::kFloat));
}

TEST(BucketizedColumn, WithManyBoundariesFindsTheSameBuckets) {
  std::vector<float> boundaries;
  for (int i = 0; i < 100; ++i) boundaries.push_back(static_cast<float>(i));
  const auto column = bucketized_column(numeric_column("x"), boundaries);
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ids_of(column, {{"x", torch::tensor({-1.0F, 0.0F, 0.5F, 98.5F, 99.0F, nan})}}),
            (Rows{{0}, {1}, {1}, {99}, {100}, {100}}));
  // As with few.
  EXPECT_EQ(ids_of(bucketized_column(numeric_column("x"), {1, 2}), {{"x", torch::tensor({nan})}}),
            (Rows{{2}}));
}

TEST(BucketizedColumn, SeesWhatTheNormalizerMade) {
  const auto source = numeric_column("x", {.normalizer = [](const at::Tensor& x) { return -x; }});
  EXPECT_EQ(ids_of(bucketized_column(source, {0}), {{"x", torch::tensor({5, -5})}}),
            (Rows{{0}, {1}}));
}

TEST(BucketizedColumn, RejectsWhatCannotWork) {
  const auto numeric = numeric_column("x");
  EXPECT_THROW(bucketized_column(numeric, {}), InvalidArgument);
  EXPECT_THAT(message_of([&] {
                bucketized_column(numeric, {1, 1});
              }),
              HasSubstr("bucketized_column \"x\": boundaries must be there and rise: [1, 1]"));
  EXPECT_THROW(bucketized_column(numeric_column("x", {.shape = {2, 2}}), {0}), InvalidArgument);
  EXPECT_THROW(bucketized_column(bucketized_column(numeric, {0}), {0}), InvalidArgument);
}

// TensorFlow's own tests.
TEST(HashBucketColumn, HashesWordsAndNumbers) {
  const auto column = categorical_column_with_hash_bucket("wire", 10);
  EXPECT_EQ(column.name(), "wire");
  EXPECT_EQ(column.num_buckets(), 10);
  EXPECT_EQ(ids_of(column, {{"wire", ragged_words({"omar", "stringer", "marlo"}, {0, 1, 3})}}),
            (Rows{{6}, {4, 1}}));
  EXPECT_EQ(ids_of(categorical_column_with_hash_bucket("wire", 4),
                   {{"wire", words({"marlo", "skywalker", "omar"})}}),
            (Rows{{3}, {2}, {2}}));
  const auto numbers = categorical_column_with_hash_bucket("wire", 10, CategoryType::kInt);
  for (const auto type : {at::kLong, at::kInt}) {
    EXPECT_EQ(ids_of(numbers, {{"wire", torch::tensor({101, 201, 301}).to(type)}}),
              (Rows{{3}, {7}, {5}}));
  }
}

TEST(HashBucketColumn, DropsMissingValuesOfDenseFeatures) {
  const auto column = categorical_column_with_hash_bucket("x", 10);
  EXPECT_EQ(ids_of(column, {{"x", words({"a", "", "", "", "b", "c"}, {3, 2})}}),
            (Rows{{9}, {}, {2, 2}}));
  const auto numbers = categorical_column_with_hash_bucket("x", 10, CategoryType::kInt);
  EXPECT_EQ(ids_of(numbers, {{"x", torch::tensor({{-1, 101}, {-1, -1}})}}), (Rows{{3}, {}}));
  // A ragged feature says itself what is missing.
  const auto empty_word = static_cast<std::int64_t>(fingerprint64("") % 10);
  EXPECT_EQ(ids_of(column, {{"x", ragged_words({"", "a"}, {0, 1, 2})}}), (Rows{{empty_word}, {9}}));
}

TEST(HashBucketColumn, ParsesAnyNumberOfValues) {
  EXPECT_EQ(var_len(categorical_column_with_hash_bucket("x", 2), "x").kind, FeatureKind::kBytes);
  EXPECT_EQ(var_len(categorical_column_with_hash_bucket("x", 2, CategoryType::kInt), "x").kind,
            FeatureKind::kInt64);
}

TEST(HashBucketColumn, RejectsWhatCannotWork) {
  EXPECT_THROW(categorical_column_with_hash_bucket("x", 0), InvalidArgument);
  EXPECT_THROW(categorical_column_with_hash_bucket("", 2), InvalidArgument);
  const auto column = categorical_column_with_hash_bucket("x", 2);
  EXPECT_THAT(message_of([&] {
                ids_of(column, {{"x", torch::tensor({1})}});
              }),
              HasSubstr("column \"x\" reads strings, but the feature \"x\" is a Long tensor"));
  const auto numbers = categorical_column_with_hash_bucket("x", 2, CategoryType::kInt);
  EXPECT_THAT(message_of([&] {
                ids_of(numbers, {{"x", torch::tensor({1.5F})}});
              }),
              HasSubstr("column \"x\" reads whole numbers, but the feature \"x\" is a Float"));
  EXPECT_THROW(ids_of(numbers, {{"x", words({"1"})}}), InvalidArgument);
  EXPECT_THAT(message_of([&] {
                ids_of(numbers, {{"x", ragged(torch::tensor({1, 2}), {0, 1, 1})}});
              }),
              HasSubstr("row splits must rise from 0 to the number of values, 2"));
  EXPECT_THROW(column.width(), InvalidArgument);
}

TEST(VocabularyColumn, GivesIdsInTheOrderOfTheList) {
  const Features features{{"x", words({"marlo", "skywalker", "omar"})}};
  const Words list{"omar", "stringer", "marlo"};
  EXPECT_EQ(ids_of(categorical_column_with_vocabulary_list("x", list), features),
            (Rows{{2}, {}, {0}}));
  EXPECT_EQ(
      ids_of(categorical_column_with_vocabulary_list("x", list, {.default_value = 1}), features),
      (Rows{{2}, {1}, {0}}));
  const auto with_buckets =
      categorical_column_with_vocabulary_list("x", list, {.num_oov_buckets = 4});
  EXPECT_EQ(with_buckets.num_buckets(), 7);
  // The bucket of "skywalker" among 4 is 2.
  EXPECT_EQ(ids_of(with_buckets, features), (Rows{{2}, {3 + 2}, {0}}));
}

TEST(VocabularyColumn, OfNumbersLooksThemUp) {
  const std::vector<std::int64_t> list{11, 100, 30};
  const auto column = categorical_column_with_vocabulary_list("x", list, {.num_oov_buckets = 10});
  // The bucket of 101 among 10 is 3.
  EXPECT_EQ(ids_of(column, {{"x", torch::tensor({100, -1, 101}, at::kInt)}}),
            (Rows{{1}, {}, {3 + 3}}));
  EXPECT_EQ(var_len(column, "x").kind, FeatureKind::kInt64);
  EXPECT_THROW(ids_of(column, {{"x", words({"100"})}}), InvalidArgument);
}

TEST(VocabularyColumn, ReadsAFile) {
  const testing::TempDir dir;
  const auto file = dir.path() / "words.txt";
  write_file_atomically(file, "omar\nstringer\n100\n", /*durable=*/false);
  const auto column = categorical_column_with_vocabulary_file("x", file);
  EXPECT_EQ(column.num_buckets(), 3);
  EXPECT_EQ(ids_of(column, {{"x", words({"100", "omar"})}}), (Rows{{2}, {0}}));
  EXPECT_EQ(categorical_column_with_vocabulary_file("x", file, 2).num_buckets(), 2);
  write_file_atomically(file, "10\n20\n", /*durable=*/false);
  const auto numbers = categorical_column_with_vocabulary_file("x", file, {}, CategoryType::kInt);
  EXPECT_EQ(ids_of(numbers, {{"x", torch::tensor({20, 10})}}), (Rows{{1}, {0}}));
  EXPECT_THAT(message_of([] { categorical_column_with_vocabulary_file("x", "/nowhere"); }),
              HasSubstr("categorical_column_with_vocabulary_file \"x\": vocabulary /nowhere"));
}

TEST(VocabularyColumn, ReadsAFileOfAStore) {
  if (!MUSTER_HAS_STORES) GTEST_SKIP() << "built without libcurl or pugixml";
  testing::FakeGcs store;
  store.set_bytes("bucket/words.txt", "omar\nstringer\n100\n");
  ::setenv("STORAGE_EMULATOR_HOST", store.url().c_str(), 1);
  register_stores();
  const auto column = categorical_column_with_vocabulary_file("x", "gs://bucket/words.txt");
  EXPECT_EQ(ids_of(column, {{"x", words({"100", "omar"})}}), (Rows{{2}, {0}}));
  EXPECT_THAT(
      message_of([] { categorical_column_with_vocabulary_file("x", "gs://bucket/nowhere"); }),
      HasSubstr("\"x\": vocabulary gs://bucket/nowhere"));
}

TEST(VocabularyColumn, RejectsWhatCannotWork) {
  const auto make = [](Words list, VocabularyOptions options) {
    return categorical_column_with_vocabulary_list("x", std::move(list), options);
  };
  EXPECT_THAT(message_of([&] {
                make({"a", "a"}, {});
              }),
              HasSubstr("categorical_column_with_vocabulary_list \"x\": \"a\" occurs twice"));
  EXPECT_THROW(make({}, {}), InvalidArgument);
  EXPECT_THAT(message_of([&] { make({"a"}, {.default_value = 0, .num_oov_buckets = 1}); }),
              HasSubstr("give only one of them"));
  EXPECT_THROW(make({"a"}, {.num_oov_buckets = -1}), InvalidArgument);
  EXPECT_THROW(make({"a"}, {.default_value = 1}), InvalidArgument);
  EXPECT_THROW(make({"a"}, {.default_value = -2}), InvalidArgument);
}

TEST(IdentityColumn, TakesIdsAsTheyAre) {
  const auto column = categorical_column_with_identity("x", 3);
  EXPECT_EQ(ids_of(column, {{"x", torch::tensor({{0, 2}, {-1, 1}})}}), (Rows{{0, 2}, {1}}));
  EXPECT_EQ(ids_of(column, {{"x", ragged(torch::tensor({2, 1}), {0, 0, 2})}}), (Rows{{}, {2, 1}}));
  EXPECT_EQ(var_len(column, "x").kind, FeatureKind::kInt64);
}

TEST(IdentityColumn, FailsOutOfRangeUnlessThereIsADefault) {
  const auto column = categorical_column_with_identity("x", 3);
  EXPECT_THROW(ids_of(column, {{"x", torch::tensor({3})}}), OutOfRange);
  EXPECT_THROW(ids_of(column, {{"x", torch::tensor({-2})}}), OutOfRange);
  EXPECT_THAT(message_of([&] {
                ids_of(column, {{"x", torch::tensor({1, 3})}});
              }),
              HasSubstr("column \"x\": the feature \"x\" has the id 3, not in [0, 3)"));
  const auto lenient = categorical_column_with_identity("x", 3, 1);
  EXPECT_EQ(ids_of(lenient, {{"x", torch::tensor({3, 2, -2})}}), (Rows{{1}, {2}, {1}}));
  EXPECT_THROW(categorical_column_with_identity("x", 3, 3), InvalidArgument);
  EXPECT_THROW(categorical_column_with_identity("x", 0), InvalidArgument);
}

TEST(WeightedColumn, GivesEachIdItsWeight) {
  const auto column =
      weighted_categorical_column(categorical_column_with_identity("x", 5), "weight");
  EXPECT_EQ(column.name(), "x_weighted_by_weight");
  EXPECT_EQ(column.num_buckets(), 5);
  const Features features{{"x", torch::tensor({{0, 2}, {-1, 1}})},
                          {"weight", torch::tensor({{1.0F, -2.0F}, {3.0F, 0.5F}})}};
  const auto ids = ids_value(column, features);
  EXPECT_EQ(rows_of_ids(ids), (Rows{{0, 2}, {1}}));
  EXPECT_TRUE(torch::equal(ids.weights, torch::tensor({1.0F, -2.0F, 0.5F})));
  // An indicator adds the weights up, an embedding skips what is not positive.
  expect_numbers(numbers_of(indicator_column(column), features),
                 torch::tensor({{1.0F, 0.0F, -2.0F, 0.0F, 0.0F}, {0.0F, 0.5F, 0.0F, 0.0F, 0.0F}}));
  const auto kept = ids_value(embedding_column(column, 2), features, ColumnUse::kInputLayer);
  EXPECT_EQ(rows_of_ids(kept), (Rows{{0}, {1}}));
  EXPECT_TRUE(torch::equal(kept.weights, torch::tensor({1.0F, 0.5F})));
}

TEST(WeightedColumn, ReadsRaggedWeights) {
  const auto column =
      weighted_categorical_column(categorical_column_with_hash_bucket("x", 10), "w");
  const auto ids = ids_value(column, {{"x", ragged_words({"a", "b", "c"}, {0, 2, 3})},
                                      {"w", ragged(torch::tensor({1, 2, 3}), {0, 2, 3})}});
  EXPECT_EQ(rows_of_ids(ids), (Rows{{9, 2}, {2}}));
  EXPECT_TRUE(torch::equal(ids.weights, torch::tensor({1.0F, 2.0F, 3.0F})));
}

TEST(WeightedColumn, RejectsWhatCannotWork) {
  const auto inner = categorical_column_with_identity("x", 5);
  const auto column = weighted_categorical_column(inner, "w");
  EXPECT_THAT(message_of([&] {
                ids_of(column, {{"x", torch::tensor({0, 1})}, {"w", torch::ones({2, 2})}});
              }),
              HasSubstr("the weights \"w\" (a Float tensor [2, 2]) must have as many values"));
  EXPECT_THROW(ids_of(column, {{"x", torch::tensor({0})}, {"w", words({"1"})}}), InvalidArgument);
  EXPECT_THROW(ids_of(column, {{"x", torch::tensor({0})}}), NotFound);
  EXPECT_THROW(weighted_categorical_column(column, "v"), InvalidArgument);
  EXPECT_THROW(weighted_categorical_column(numeric_column("x"), "w"), InvalidArgument);
  EXPECT_THROW(weighted_categorical_column(inner, ""), InvalidArgument);
  EXPECT_EQ(var_len(column, "w").kind, FeatureKind::kFloat);
  EXPECT_EQ(var_len(column, "x").kind, FeatureKind::kInt64);
}

// TensorFlow's own test.
TEST(CrossedColumn, CrossesEveryValueWithEveryOther) {
  const auto buckets = bucketized_column(numeric_column("a", {.shape = {2}}), {0, 1});
  const auto column = crossed_column({buckets, "c"}, 5, 5);
  EXPECT_EQ(column.name(), "a_bucketized_X_c");
  EXPECT_EQ(ids_of(column, {{"a", torch::tensor({{-1.0F, 0.5F}, {0.5F, 1.0F}})},
                            {"c", ragged_words({"cA", "cB", "cC"}, {0, 1, 3})}}),
            (Rows{{1, 0}, {1, 3, 4, 2}}));
}

// The hash of these values in this order, among this many buckets.
std::int64_t cross_of(std::vector<std::uint64_t> values, std::uint64_t buckets,
                      std::uint64_t key = 0xDECAFCAFFE) {
  for (const auto value : values) key = concatenate_fingerprints(key, value);
  return static_cast<std::int64_t>(key % buckets);
}

TEST(CrossedColumn, HashesOneValueARowLikeMany) {
  const auto column = crossed_column({"b", "a"}, 1000);
  EXPECT_EQ(column.name(), "a_X_b");
  const std::int64_t wanted = cross_of({fingerprint64("y"), fingerprint64("x")}, 1000);
  EXPECT_EQ(ids_of(column, {{"a", words({"x"})}, {"b", words({"y"})}}), (Rows{{wanted}}));
  EXPECT_EQ(
      ids_of(column, {{"a", ragged_words({"x"}, {0, 1})}, {"b", ragged_words({"y"}, {0, 1})}}),
      (Rows{{wanted}}));
  EXPECT_EQ(ids_of(column, {{"a", words({"x", ""}, {1, 2})}, {"b", words({"y"})}}),
            (Rows{{wanted}}));
}

TEST(CrossedColumn, HashesColumnsAndRaggedFeaturesBeforeDenseOnes) {
  const auto buckets = bucketized_column(numeric_column("a"), {0});
  const auto column = crossed_column({"c", buckets}, 1000);
  const auto a = torch::tensor({1.0F});
  EXPECT_EQ(ids_of(column, {{"a", a}, {"c", words({"x"})}}),
            (Rows{{cross_of({1, fingerprint64("x")}, 1000)}}));
  EXPECT_EQ(ids_of(column, {{"a", a}, {"c", ragged_words({"x"}, {0, 1})}}),
            (Rows{{cross_of({fingerprint64("x"), 1}, 1000)}}));
}

TEST(CrossedColumn, GivesNothingForARowWhereAKeyHasNothing) {
  const auto column =
      crossed_column({"c", categorical_column_with_vocabulary_list("v", Words{"p", "q"})}, 1000);
  const auto wanted = cross_of({1, fingerprint64("y")}, 1000);
  EXPECT_EQ(ids_of(column, {{"c", words({"x", "y", ""})}, {"v", words({"unknown", "q", "p"})}}),
            (Rows{{}, {wanted}, {}}));
  EXPECT_EQ(ids_of(crossed_column({"c", "i"}, 1000),
                   {{"c", words({"x", "y"})}, {"i", torch::tensor({-1, 7})}}),
            (Rows{{}, {cross_of({fingerprint64("y"), 7}, 1000)}}));
}

TEST(CrossedColumn, TakesTheKeysOfACrossInItsPlace) {
  const auto nested = crossed_column({crossed_column({"a", "c"}, 10), "b"}, 1000, 7);
  EXPECT_EQ(nested.name(), "a_X_b_X_c");
  const auto x = fingerprint64("x");
  const auto y = fingerprint64("y");
  const auto z = fingerprint64("z");
  EXPECT_EQ(ids_of(nested, {{"a", words({"x"})}, {"b", words({"y"})}, {"c", words({"z"})}}),
            (Rows{{cross_of({x, z, y}, 1000, 7)}}));
}

TEST(CrossedColumn, ParsesWhatItsKeysNeed) {
  const auto column = crossed_column({bucketized_column(numeric_column("a"), {0}), "c"}, 10);
  const auto specs = column.parse_specs();
  ASSERT_EQ(specs.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<FixedLen>(specs[0].second));
  EXPECT_EQ(var_len(column, "c").kind, FeatureKind::kBytes);
}

TEST(CrossedColumn, RejectsWhatCannotWork) {
  EXPECT_THROW(crossed_column({"a"}, 10), InvalidArgument);
  EXPECT_THROW(crossed_column({"a", "b"}, 0), InvalidArgument);
  EXPECT_THROW(crossed_column({"a", ""}, 10), InvalidArgument);
  EXPECT_THAT(message_of([] {
                crossed_column({"a", categorical_column_with_hash_bucket("b", 10)}, 10);
              }),
              HasSubstr("\"b\" is hashed already"));
  EXPECT_THROW(crossed_column({"a", numeric_column("b")}, 10), InvalidArgument);
  const auto weighted = weighted_categorical_column(categorical_column_with_identity("b", 2), "w");
  EXPECT_THROW(crossed_column({"a", weighted}, 10), InvalidArgument);
  EXPECT_THAT(
      message_of([] {
        ids_of(crossed_column({"a", "b"}, 10), {{"a", words({"x"})}, {"b", torch::tensor({0.5F})}});
      }),
      HasSubstr("column \"a_X_b\" reads whole numbers, but the feature \"b\""));
  const Features many{{"a", torch::zeros({1, 100'000}, at::kLong)},
                      {"b", torch::zeros({1, 100'000}, at::kLong)}};
  EXPECT_THROW(ids_of(crossed_column({"a", "b"}, 10), many), ResourceExhausted);
}

TEST(IndicatorColumn, CountsEachId) {
  const auto column =
      indicator_column(categorical_column_with_vocabulary_list("x", Words{"a", "b", "c"}));
  EXPECT_EQ(column.name(), "x_indicator");
  EXPECT_EQ(column.width(), 3);
  EXPECT_EQ(var_len(column, "x").kind, FeatureKind::kBytes);
  expect_numbers(numbers_of(column, {{"x", ragged_words({"c", "a", "c", "z"}, {0, 3, 3, 4})}}),
                 torch::tensor({{1.0F, 0.0F, 2.0F}, {0.0F, 0.0F, 0.0F}, {0.0F, 0.0F, 0.0F}}));
  EXPECT_THROW(indicator_column(numeric_column("x")), InvalidArgument);
}

TEST(EmbeddingColumn, SaysWhatItsTableIs) {
  const auto categorical = categorical_column_with_hash_bucket("x", 10);
  const auto column = embedding_column(categorical, 4);
  EXPECT_EQ(column.name(), "x_embedding");
  EXPECT_TRUE(column.is_dense());
  EXPECT_EQ(column.width(), 4);
  const auto* table = column.embedding();
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->rows, 10);
  EXPECT_EQ(table->dimension, 4);
  EXPECT_EQ(table->combiner, Combiner::kMean);
  EXPECT_EQ(table->name, "x_embedding");
  EXPECT_EQ(table->initial_stddev, 0.5);
  EXPECT_TRUE(table->trainable);
  EXPECT_EQ(categorical.embedding(), nullptr);
  const auto given = embedding_column(categorical, 4,
                                      {.combiner = Combiner::kSqrtN,
                                       .initial_stddev = 0.1,
                                       .checkpoint_to_load_from = "runs/old",
                                       .tensor_name_in_checkpoint = "words",
                                       .max_norm = 2,
                                       .trainable = false});
  EXPECT_EQ(given.embedding()->combiner, Combiner::kSqrtN);
  EXPECT_EQ(given.embedding()->initial_stddev, 0.1);
  EXPECT_EQ(given.embedding()->max_norm, 2);
  EXPECT_FALSE(given.embedding()->trainable);
  EXPECT_EQ(given.embedding()->tensor_name_in_checkpoint, "words");
}

TEST(EmbeddingColumn, GivesTheIdsThatCount) {
  const auto column =
      embedding_column(categorical_column_with_vocabulary_list("x", Words{"a", "b", "c"}), 2);
  EXPECT_EQ(rows_of_ids(ids_value(column, {{"x", words({"c", "?", "a"})}}, ColumnUse::kInputLayer)),
            (Rows{{2}, {}, {0}}));
}

TEST(EmbeddingColumn, RejectsWhatCannotWork) {
  const auto categorical = categorical_column_with_hash_bucket("x", 10);
  EXPECT_THROW(embedding_column(categorical, 0), InvalidArgument);
  EXPECT_THROW(embedding_column(numeric_column("x"), 4), InvalidArgument);
  EXPECT_THROW(embedding_column(categorical, 4, {.initial_stddev = 0}), InvalidArgument);
  EXPECT_THROW(embedding_column(categorical, 4, {.max_norm = -1}), InvalidArgument);
  EXPECT_THAT(
      message_of([&] { embedding_column(categorical, 4, {.checkpoint_to_load_from = "runs"}); }),
      HasSubstr("\"x_embedding\": checkpoint_to_load_from and tensor_name_in_checkpoint belong"));
}

TEST(SharedEmbeddingColumns, HaveOneTable) {
  const auto columns = shared_embedding_columns({categorical_column_with_identity("watched", 5),
                                                 categorical_column_with_identity("asked", 5)},
                                                3);
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_EQ(columns[0].name(), "watched_shared_embedding");
  EXPECT_EQ(columns[1].name(), "asked_shared_embedding");
  EXPECT_EQ(columns[0].embedding()->name, "asked_watched_shared_embedding");
  EXPECT_EQ(columns[1].embedding()->name, "asked_watched_shared_embedding");
  EXPECT_THAT(message_of([] {
                shared_embedding_columns({categorical_column_with_identity("a", 5),
                                          categorical_column_with_identity("b", 6)},
                                         3);
              }),
              HasSubstr("\"a\" has 5 and \"b\" has 6"));
  EXPECT_THROW(shared_embedding_columns({}, 3), InvalidArgument);
}

TEST(MakeParseExampleSpec, AsksForEachFeatureOnce) {
  const auto x = categorical_column_with_hash_bucket("x", 10);
  const auto specs = make_parse_example_spec(
      {embedding_column(x, 2), crossed_column({"x", "y"}, 10), numeric_column("z")});
  std::vector<std::string> keys;
  for (const auto& spec : specs) keys.push_back(spec.first);
  EXPECT_THAT(keys, ElementsAre("x", "y", "z"));
}

TEST(MakeParseExampleSpec, NamesTheColumnsThatDisagree) {
  EXPECT_THAT(message_of([] {
                make_parse_example_spec(
                    {categorical_column_with_identity("x", 10), crossed_column({"x", "y"}, 10)});
              }),
              HasSubstr("the columns \"x\" and \"x_X_y\" disagree about the feature \"x\": int64 "
                        "of any number or bytes of any number"));
  EXPECT_THROW(
      make_parse_example_spec({numeric_column("x"), numeric_column("x", {.default_value = {0}})}),
      InvalidArgument);
}

}  // namespace
}  // namespace muster
