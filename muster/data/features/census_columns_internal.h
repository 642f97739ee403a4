#pragma once

// The columns of the Census model, as the census sample of Cloud ML Engine has them, for tests and
// benchmarks.

#include <string>
#include <vector>

#include "muster/data/features/collate.h"
#include "muster/data/features/feature_column.h"
#include "muster/data/records/synthetic_census.h"

namespace muster::internal {

/// Made once, so that the wide and the deep part share them.
struct CensusColumns {
  FeatureColumnList wide{};
  FeatureColumnList deep{};
};

inline CensusColumns census_columns(std::int64_t embedding_size = 8,
                                    std::int64_t cross_size = 1'000'000) {
  const auto words = [](const char* key, std::vector<std::string> vocabulary) {
    return categorical_column_with_vocabulary_list(key, std::move(vocabulary));
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
  const auto occupation = categorical_column_with_hash_bucket("occupation", 100);
  const auto native_country = categorical_column_with_hash_bucket("native_country", 100);
  const auto age = numeric_column("age");
  const auto age_buckets = bucketized_column(age, {18, 25, 30, 35, 40, 45, 50, 55, 60, 65});
  return {.wide = {crossed_column({"education", "occupation"}, 10'000),
                   crossed_column({age_buckets, "race", "occupation"}, cross_size),
                   crossed_column({"native_country", "occupation"}, 10'000), gender, native_country,
                   education, occupation, workclass, marital_status, relationship, age_buckets},
          .deep = {indicator_column(workclass), indicator_column(education),
                   indicator_column(marital_status), indicator_column(gender),
                   indicator_column(relationship), indicator_column(race),
                   embedding_column(native_country, embedding_size),
                   embedding_column(occupation, embedding_size), age,
                   numeric_column("education_num"), numeric_column("capital_gain"),
                   numeric_column("capital_loss"), numeric_column("hours_per_week")}};
}

/// Made-up people as the CSV reader gives them: words and int32 numbers of shape [rows].
inline Features census_features(std::size_t rows, std::uint64_t seed = 1) {
  auto people = std::make_shared<const SyntheticCensus>(make_synthetic_census(rows, seed));
  std::vector<CsvField> fields;
  for (const char* name :
       {"age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
        "relationship", "race", "gender", "capital_gain", "capital_loss", "hours_per_week",
        "native_country", "income_bracket"}) {
    const std::string_view key = name;
    const bool number = key == "age" || key == "fnlwgt" || key == "education_num" ||
                        key.starts_with("capital_") || key == "hours_per_week";
    fields.push_back(number ? CsvField::int32(name) : CsvField::string(name));
  }
  const std::vector<std::string_view> lines(people->rows.begin(), people->rows.end());
  auto decoder =
      std::make_shared<const CsvDecoder>(std::move(fields), CsvOptions{.strip_blanks = true});
  auto columns = decoder->decode(lines);
  return to_features(
      std::move(columns),
      std::make_shared<const std::pair<decltype(people), decltype(decoder)>>(people, decoder));
}

}  // namespace muster::internal
