#include "examples/census/columns.h"

#include <string_view>

namespace census {

using muster::FeatureColumn;

namespace {

/// A number, 0 where there is none: as a blank of the training files is read, so a request without
/// it is answered alike.
FeatureColumn plain_number(const char* key) {
  return muster::numeric_column(key, {.default_value = {0}});
}

/// A column of numbers as the census sample has it, or moved and scaled for a network: sums of
/// money, most of them 0 and some 99,999, by their logarithms.
FeatureColumn number(const char* key, const Flags& flags, double middle, double scale) {
  if (flags.numbers == "raw") return plain_number(key);
  const bool money = std::string_view(key).starts_with("capital_");
  return muster::numeric_column(key,
                                {.default_value = {0}, .normalizer = [=](const at::Tensor& values) {
                                   const at::Tensor x = values.to(at::kFloat);
                                   return (money ? x.log1p() : x).sub(middle).div(scale);
                                 }});
}

}  // namespace

Columns make_columns(const Flags& flags) {
  const auto words = [](const char* key, std::vector<std::string> vocabulary) {
    return muster::categorical_column_with_vocabulary_list(key, std::move(vocabulary));
  };
  const auto gender = words("gender", {"Female", "Male"});
  const auto race =
      words("race", {"Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"});
  const auto education =
      words("education", {"Bachelors", "HS-grad", "11th", "Masters", "9th", "Some-college",
                          "Assoc-acdm", "Assoc-voc", "7th-8th", "Doctorate", "Prof-school",
                          "5th-6th", "10th", "1st-4th", "Preschool", "12th"});
  const auto marital_status =
      words("marital_status", {"Married-civ-spouse", "Divorced", "Married-spouse-absent",
                               "Never-married", "Separated", "Married-AF-spouse", "Widowed"});
  const auto relationship = words("relationship", {"Husband", "Not-in-family", "Wife", "Own-child",
                                                   "Unmarried", "Other-relative"});
  const auto workclass =
      words("workclass", {"Self-emp-not-inc", "Private", "State-gov", "Federal-gov", "Local-gov",
                          "?", "Self-emp-inc", "Without-pay", "Never-worked"});
  // Words that are not known beforehand.
  const auto occupation = muster::categorical_column_with_hash_bucket("occupation", 100);
  const auto native_country = muster::categorical_column_with_hash_bucket("native_country", 100);

  const auto age = plain_number("age");
  const auto age_buckets = muster::bucketized_column(age, {18, 25, 30, 35, 40, 45, 50, 55, 60, 65});

  Columns columns;
  columns.wide = {muster::crossed_column({"education", "occupation"}, 10'000),
                  muster::crossed_column({age_buckets, "race", "occupation"}, 1'000'000),
                  muster::crossed_column({"native_country", "occupation"}, 10'000),
                  gender,
                  native_country,
                  education,
                  occupation,
                  workclass,
                  marital_status,
                  relationship,
                  age_buckets};
  columns.deep = {muster::indicator_column(workclass),
                  muster::indicator_column(education),
                  muster::indicator_column(marital_status),
                  muster::indicator_column(gender),
                  muster::indicator_column(relationship),
                  muster::indicator_column(race),
                  muster::embedding_column(native_country, flags.embedding_size),
                  muster::embedding_column(occupation, flags.embedding_size),
                  number("age", flags, 38.6, 13.6),
                  number("education_num", flags, 10.1, 2.6),
                  number("capital_gain", flags, 0.7, 2.4),
                  number("capital_loss", flags, 0.4, 1.6),
                  number("hours_per_week", flags, 40.4, 12.3)};
  if (flags.numbers == "bucketized") {
    const auto buckets = [](const char* key, std::vector<float> boundaries) {
      return muster::bucketized_column(plain_number(key), std::move(boundaries));
    };
    // Tenths of the people in four fifths of the training file; of money, of those who have any.
    columns.deep.insert(
        columns.deep.end(),
        {age_buckets, buckets("capital_gain", {1, 2329, 3103, 4064, 5013, 7298, 7688, 8614, 15024}),
         buckets("capital_loss", {1, 1504, 1617, 1740, 1876, 1887, 1902, 1977, 2002, 2339}),
         buckets("hours_per_week", {24, 35, 40, 48, 55})});
  }
  columns.trees = {age, plain_number("education_num"), plain_number("capital_gain"),
                   plain_number("capital_loss"), plain_number("hours_per_week")};
  for (const auto& column : {gender, race, education, marital_status, relationship, workclass,
                             occupation, native_country}) {
    columns.trees.push_back(muster::indicator_column(column));
  }
  return columns;
}

std::vector<std::shared_ptr<const muster::ColumnSet>> column_sets(const Flags& flags,
                                                                  const Columns& columns) {
  std::vector<std::shared_ptr<const muster::ColumnSet>> sets;
  if (flags.model.starts_with("wide")) {
    sets.push_back(
        std::make_shared<const muster::ColumnSet>(columns.wide, muster::ColumnUse::kLinear));
  }
  if (flags.model.ends_with("deep")) {
    sets.push_back(
        std::make_shared<const muster::ColumnSet>(columns.deep, muster::ColumnUse::kInputLayer));
  }
  return sets;
}

}  // namespace census
