// Who earns more than 50,000 dollars? Wide and deep, as a program of tf.estimator trains it.
// docs/guides/from_tf_estimator.md has both sides.
#include <fmt/core.h>

#include "muster/muster.h"

using muster::CsvField;
using Words = std::vector<std::string>;

std::vector<CsvField> fields() {
  return {CsvField::float32("age"),
          CsvField::string("workclass"),
          CsvField::ignored("fnlwgt"),
          CsvField::string("education"),
          CsvField::float32("education_num"),
          CsvField::string("marital_status"),
          CsvField::string("occupation"),
          CsvField::string("relationship"),
          CsvField::string("race"),
          CsvField::string("gender"),
          CsvField::float32("capital_gain"),
          CsvField::float32("capital_loss"),
          CsvField::float32("hours_per_week"),
          CsvField::string("native_country"),
          CsvField::string("income_bracket")};
}

muster::InputFn input_fn(const std::string& file) {
  const auto parse = muster::parse_csv(
      {.fields = fields(), .label = {.field = "income_bracket", .vocabulary = {"<=50K", ">50K"}}});
  return [=](const muster::InputContext& in) {
    auto rows = muster::csv_rows({file});
    if (in.mode() == muster::Mode::kTrain) rows = rows.shuffle(1000, in.seed()).shard(in).repeat();
    return rows.batch(40).map(parse).prefetch(2);
  };
}

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [] {
    const auto age = muster::numeric_column("age");
    const auto hours = muster::numeric_column("hours_per_week");
    const auto education_num = muster::numeric_column("education_num");
    const auto relationship = muster::categorical_column_with_vocabulary_list(
        "relationship",
        Words{"Husband", "Not-in-family", "Wife", "Own-child", "Unmarried", "Other-relative"});
    const auto occupation = muster::categorical_column_with_hash_bucket("occupation", 100);
    const auto age_buckets =
        muster::bucketized_column(age, {18, 25, 30, 35, 40, 45, 50, 55, 60, 65});
    const muster::FeatureColumnList wide{relationship, occupation, age_buckets,
                                         muster::crossed_column({age_buckets, "occupation"}, 1000)};
    const muster::FeatureColumnList deep{age, hours, education_num,
                                         muster::indicator_column(relationship),
                                         muster::embedding_column(occupation, 8)};

    const auto config = muster::RunConfig::from_env({.model_dir = "census_model",
                                                     .checkpoints = {.save_checkpoints_steps = 250},
                                                     .reproducibility = {.tf_random_seed = 1}});
    auto estimator = muster::dnn_linear_combined_classifier(
        {.linear_columns = wide,
         .linear_optimizer = muster::ftrl({.learning_rate = 0.05}),
         .dnn_columns = deep,
         .dnn_optimizer = muster::adagrad({.learning_rate = 0.05}),
         .hidden_units = {100, 50},
         .loss_reduction = muster::Reduction::kSumOverBatchSize},
        config);

    muster::FeatureColumnList all = wide;
    all.insert(all.end(), deep.begin(), deep.end());
    const auto result = muster::train_and_evaluate(
        estimator, {.input_fn = input_fn("people/adult.data.csv"), .max_steps = 1000},
        {.input_fn = input_fn("people/adult.test.csv"),
         .steps = {},
         .exporters = {muster::final_exporter("census", muster::example_serving_input(all))},
         .throttle_secs = std::chrono::seconds(0)});
    for (const auto* name : {"accuracy", "auc", "average_loss"}) {
      fmt::print("{} = {:.4f}\n", name, result.metrics.at(name));
    }
    return 0;
  });
}
