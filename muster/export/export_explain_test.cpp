#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/records/example_builder.h"
#include "muster/export/export_saved_model.h"
#include "muster/export/inference_graph.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/wide_and_deep.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/testing/temp_dir.h"

// Exports are explained: every feature has its part of the logits.
namespace muster::exporting {
namespace {

using executor::ExecutableModel;
using executor::Explanation;
using executor::StringTensor;
using executor::Values;
using ::testing::ElementsAre;

enum class Way { kJson, kExamples, kCsv };

ServingInput input_of(const FeatureColumnList& columns, Way way) {
  if (way == Way::kJson) return json_serving_input(columns);
  if (way == Way::kExamples) return example_serving_input(columns);
  return csv_serving_input({.fields = {CsvField::string("word"), CsvField::float32("age")}});
}

/// A wide and deep model of an age, a word, a bucket of the age and a cross, exported.
class ExplainedExport {
 public:
  ExplainedExport(bool deep, Way way) {
    const auto age = numeric_column("age");
    const auto word =
        categorical_column_with_vocabulary_list("word", std::vector<std::string>{"a", "b", "c"});
    const auto buckets = bucketized_column(age, {10, 20});
    const FeatureColumnList wide{word, buckets, crossed_column({buckets, "word"}, 11)};
    FeatureColumnList all = wide;
    WideAndDeepOptions options;
    options.linear_columns = std::make_shared<const ColumnSet>(wide, ColumnUse::kLinear);
    if (deep) {
      const FeatureColumnList dense{age, embedding_column(word, 3)};
      options.dnn_columns = std::make_shared<const ColumnSet>(dense, ColumnUse::kInputLayer);
      options.hidden_units = {4};
      all.insert(all.end(), dense.begin(), dense.end());
    }
    model_ = std::make_shared<WideAndDeep>(options);
    torch::manual_seed(7);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model_->parameters()) parameter.uniform_(-1, 1);
    model_->eval();
    const HeadPtr head = binary_class_head();
    write_model(*model_, head.get(), input_of(all, way), folder_ / "export");
  }

  /// Weights whose name has this in it.
  at::Tensor weights(const std::string& part) const {
    for (const auto& item : model_->named_parameters()) {
      if (item.key().find(part) != std::string::npos) return item.value().detach();
    }
    std::string names;
    for (const auto& key : model_->named_parameters().keys()) names += key + " ";
    throw std::out_of_range(part + " in " + names);
  }
  ExecutableModel load() const {
    return ExecutableModel::load(folder_ / "export", {.explain = true});
  }

 private:
  testing::TempDir folder_{};
  std::shared_ptr<Model> model_{};
};

std::map<std::string, double> sums_of(const Explanation& explanation) {
  std::map<std::string, double> sums;
  for (const auto& one : explanation.attributions) sums[one.feature] = one.sum();
  return sums;
}

std::vector<std::string> features_of(const Explanation& explanation) {
  std::vector<std::string> features;
  for (const auto& one : explanation.attributions) features.push_back(one.feature);
  return features;
}

Values person(float age, const std::string& word) {
  return {{"age", torch::tensor({age})}, {"word", StringTensor({word})}};
}

TEST(ExplainedExport, HasTheWeightsOfALinearModelAsParts) {
  const ExplainedExport exported(/*deep=*/false, Way::kJson);
  const auto explanation = exported.load().explain("predict", person(15, "b"));
  EXPECT_EQ(explanation.output, "logits");
  EXPECT_TRUE(explanation.is_complete) << explanation.error;
  const auto sums = sums_of(explanation);
  EXPECT_NEAR(sums.at("word"), exported.weights(".word/weights")[1].sum().item<double>(), 1e-6);
  EXPECT_NEAR(sums.at("age"), exported.weights(".age_bucketized/weights")[1].sum().item<double>(),
              1e-6);
  EXPECT_THAT(features_of(explanation), ElementsAre("age", "age x word", "word"));
  EXPECT_NEAR(explanation.baseline_value, exported.weights("bias_weights").sum().item<double>(),
              1e-6);
}

TEST(ExplainedExport, AddsUpForAWideAndDeepModel) {
  const ExplainedExport exported(/*deep=*/true, Way::kJson);
  const auto model = exported.load();
  for (const auto* output : {"logits", "probabilities", "logistic"}) {
    const auto explanation =
        model.explain("predict", person(15, "b"), {.output = output, .tolerance = 0.001});
    EXPECT_THAT(features_of(explanation), ElementsAre("age", "age x word", "word")) << output;
    EXPECT_TRUE(explanation.is_complete) << output << " " << explanation.error;
    double sum = 0;
    for (const auto& [feature, part] : sums_of(explanation)) sum += part;
    EXPECT_NEAR(sum, explanation.value - explanation.baseline_value, explanation.error + 1e-9);
  }
}

TEST(ExplainedExport, BeginsAtAnotherPersonWhenToldTo) {
  const ExplainedExport exported(/*deep=*/true, Way::kJson);
  const auto model = exported.load();
  const auto explanation =
      model.explain("predict", person(15, "b"), {.tolerance = 0.001}, person(15, "c"));
  EXPECT_NEAR(sums_of(explanation).at("age"), 0, 1e-9);
  EXPECT_TRUE(explanation.is_complete) << explanation.error;
  const auto other = model.run("predict", person(15, "c"));
  EXPECT_NEAR(explanation.baseline_value, std::get<at::Tensor>(other.at("logits")).item<double>(),
              1e-5);
}

TEST(ExplainedExport, NumbersTheFieldsOfCsv) {
  const ExplainedExport exported(/*deep=*/true, Way::kCsv);
  const ExplainedExport by_json(/*deep=*/true, Way::kJson);
  const auto explanation =
      exported.load().explain("predict", {{"csv_row", StringTensor({"b,15"})}});
  const auto wanted = sums_of(by_json.load().explain("predict", person(15, "b")));
  EXPECT_EQ(sums_of(explanation),
            (std::map<std::string, double>{{"csv_row[0]", wanted.at("word")},
                                           {"csv_row[0] x csv_row[1]", wanted.at("age x word")},
                                           {"csv_row[1]", wanted.at("age")}}));
}

TEST(ExplainedExport, NamesTheFeaturesInsideOfExamples) {
  const ExplainedExport exported(/*deep=*/true, Way::kExamples);
  const ExplainedExport by_json(/*deep=*/true, Way::kJson);
  ExampleBuilder builder;
  builder.add_float("age", 15);
  builder.add_bytes("word", "b");
  const auto explanation = exported.load().explain(
      "predict", {{"examples", StringTensor({std::string(builder.serialize())})}});
  EXPECT_EQ(sums_of(explanation), sums_of(by_json.load().explain("predict", person(15, "b"))));
  EXPECT_THAT(features_of(explanation), ElementsAre("age", "age x word", "word"));
}

}  // namespace
}  // namespace muster::exporting
