#include "model.h"

#include <algorithm>
#include <cmath>

namespace {

std::vector<std::int64_t> hidden_units(const ModelOptions& options) {
  std::vector<std::int64_t> units;
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    const double size = static_cast<double>(options.first_layer_size) *
                        std::pow(options.scale_factor, static_cast<double>(i));
    units.push_back(std::max<std::int64_t>(2, static_cast<std::int64_t>(size)));
  }
  return units;
}

}  // namespace

void add_model_flags(muster::FlagSet& set, ModelOptions& options) {
  set.add("--learning-rate", &options.learning_rate, "Of the network's Adagrad").positive();
  set.add("--embedding-size", &options.embedding_size, "Numbers an embedded word becomes")
      .positive();
  set.add("--first-layer-size", &options.first_layer_size, "Units of the first hidden layer")
      .positive();
  set.add("--num-layers", &options.num_layers, "Hidden layers").positive();
  set.add("--scale-factor", &options.scale_factor, "Units of a layer over those of the one before")
      .positive();
}

Columns make_columns(const ModelOptions& options) {
  const auto words = [](const char* key, std::vector<std::string> vocabulary) {
    return muster::categorical_column_with_vocabulary_list(key, std::move(vocabulary));
  };
  const auto gender = words("gender", {"Female", "Male"});
  const auto marital_status =
      words("marital_status", {"Married-civ-spouse", "Divorced", "Married-spouse-absent",
                               "Never-married", "Separated", "Married-AF-spouse", "Widowed"});
  const auto relationship = words("relationship", {"Husband", "Not-in-family", "Wife", "Own-child",
                                                   "Unmarried", "Other-relative"});
  // Words that are not known beforehand.
  const auto education = muster::categorical_column_with_hash_bucket("education", 50);
  const auto workclass = muster::categorical_column_with_hash_bucket("workclass", 50);
  const auto occupation = muster::categorical_column_with_hash_bucket("occupation", 100);
  const auto native_country = muster::categorical_column_with_hash_bucket("native_country", 100);
  // A number that is missing is 0, as a blank of the training files.
  const auto number = [](const char* key) {
    return muster::numeric_column(key, {.default_value = {0}});
  };
  const auto age = number("age");
  const auto age_buckets = muster::bucketized_column(age, {18, 25, 30, 35, 40, 45, 50, 55, 60, 65});

  Columns columns;
  columns.wide = {muster::crossed_column({"education", "occupation"}, 10'000),
                  muster::crossed_column({"native_country", "occupation"}, 10'000),
                  gender,
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
                  muster::embedding_column(native_country, options.embedding_size),
                  muster::embedding_column(occupation, options.embedding_size),
                  age_buckets,
                  number("education_num"),
                  number("hours_per_week")};
  return columns;
}

muster::Estimator make_estimator(const ModelOptions& options, std::int64_t /*max_steps*/,
                                 const muster::RunConfig& config) {
  const Columns columns = make_columns(options);
  return muster::dnn_linear_combined_classifier(
      {.linear_columns = columns.wide,
       .dnn_columns = columns.deep,
       .dnn_optimizer = muster::adagrad({options.learning_rate}),
       .hidden_units = hidden_units(options)},
      config);
}
