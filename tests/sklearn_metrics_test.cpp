// Metrics of random and of awkward inputs, computed again by scikit-learn as a process.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/nn/model/metrics.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using nlohmann::json;
using testing::run_program;
using testing::TempDir;

constexpr const char* kPython = "/usr/bin/python3";

/// Labels and predictions, and weights that may be none.
struct Inputs {
  at::Tensor labels, predictions, weights;

  Inputs slice(std::int64_t begin, std::int64_t end) const {
    return {labels.slice(0, begin, end), predictions.slice(0, begin, end),
            weights.defined() ? weights.slice(0, begin, end) : weights};
  }
};

json numbers_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return json::array();
  if (tensor.dim() == 2) {
    json rows = json::array();
    for (std::int64_t row = 0; row < tensor.size(0); ++row) rows.push_back(numbers_of(tensor[row]));
    return rows;
  }
  const auto flat = tensor.to(torch::kDouble).contiguous();
  const auto* const data = flat.data_ptr<double>();
  if (tensor.is_floating_point()) return std::vector<double>(data, data + flat.numel());
  return std::vector<std::int64_t>(data, data + flat.numel());
}

at::Tensor random_weights(Random& random, std::int64_t count) {
  auto weights = torch::empty({count});
  for (std::int64_t i = 0; i < count; ++i) {
    weights[i] = static_cast<float>(random.coin(0.1) ? 0.0 : random.uniform(0.1, 3.0));
  }
  weights[0] = 1.0F;
  return weights;
}

// As evaluations do it: batches, an empty one among them, of which states are merged in any order.
template <typename M>
double value_of(M metric, const Inputs& inputs) {
  const std::int64_t size = inputs.labels.size(0);
  M last = metric;
  for (const auto& [begin, end] : {std::pair(std::int64_t{0}, size / 3),
                                   std::pair(size / 3, size / 3), std::pair(size / 3, size)}) {
    const auto part = inputs.slice(begin, end);
    M& place = begin == 0 ? last : metric;
    place.update(part.labels, part.predictions, part.weights);
  }
  metric.merge(last);
  return metric.compute();
}

json regression_values(const Inputs& inputs) {
  return {{"mse", value_of(MeanSquaredError(), inputs)},
          {"rmse", value_of(RootMeanSquaredError(), inputs)},
          {"mae", value_of(MeanAbsoluteError(), inputs)},
          {"mape", value_of(MeanAbsolutePercentageError(), inputs)},
          {"r2", value_of(R2(), inputs)}};
}

json class_values(const Inputs& inputs, std::int64_t classes) {
  const auto average = [&](ClassScore score, Average kind) {
    return value_of(ClassAverage(score, kind, classes), inputs);
  };
  json values{{"accuracy", value_of(Accuracy(), inputs)},
              {"balanced_accuracy", value_of(BalancedAccuracy(classes), inputs)},
              {"f1_micro", average(ClassScore::kF1, Average::kMicro)}};
  for (const auto& [name, kind] :
       {std::pair("macro", Average::kMacro), std::pair("weighted", Average::kWeighted)}) {
    values[std::string("precision_") + name] = average(ClassScore::kPrecision, kind);
    values[std::string("recall_") + name] = average(ClassScore::kRecall, kind);
    values[std::string("f1_") + name] = average(ClassScore::kF1, kind);
  }
  ConfusionMatrix matrix(classes);
  matrix.update(inputs.labels, inputs.predictions, inputs.weights);
  auto counts = matrix.by_class();
  for (std::int64_t row = 0; row < classes; ++row) {
    const auto name = std::to_string(row);
    for (std::int64_t column = 0; column < classes; ++column) {
      values["count/" + name + "/" + std::to_string(column)] = matrix.count(row, column);
    }
    Precision precision;
    precision.add(counts[row]);
    Recall recall;
    recall.add(counts[row]);
    F1 f1;
    f1.add(counts[row]);
    values["precision/" + name] = precision.compute();
    values["recall/" + name] = recall.compute();
    values["f1/" + name] = f1.compute();
  }
  return values;
}

json binary_values(const Inputs& inputs, std::int64_t bins) {
  const Inputs decided{inputs.labels, inputs.predictions.gt(0.5), inputs.weights};
  const auto wide = inputs.predictions.to(torch::kDouble);
  const auto losses = -at::where(inputs.labels.gt(0), wide.log(), (1 - wide).log());
  Perplexity perplexity;
  perplexity.update(losses, inputs.weights);
  json values{{"precision", value_of(Precision(), decided)},
              {"recall", value_of(Recall(), decided)},
              {"f1", value_of(F1(), decided)},
              {"perplexity", perplexity.compute()}};
  if (!inputs.weights.defined()) {
    values["calibration_error"] = value_of(CalibrationError(bins), inputs);
    CalibrationError error(bins);
    error.update(inputs.labels, inputs.predictions);
    int number = 0;
    for (const auto& point : error.curve()) {
      values["curve/" + std::to_string(number++)] =
          point.fraction_of_positives * 10 + point.mean_prediction;
    }
  }
  const auto counted =
      inputs.weights.defined() ? inputs.weights : torch::ones(inputs.labels.sizes());
  const auto weight_of = [&](const at::Tensor& some) {
    return (some * counted).sum().item<double>();
  };
  if (weight_of(inputs.labels) > 0 && weight_of(1 - inputs.labels) > 0) {
    values["exact_auc"] = value_of(ExactAuc(), inputs);
    values["average_precision"] = value_of(ExactAuc(Curve::kPrecisionRecall), inputs);
  }
  return values;
}

json ranking_values(const Inputs& inputs, std::int64_t k) {
  return {{"precision_at_k", value_of(PrecisionAtK(k), inputs)},
          {"recall_at_k", value_of(RecallAtK(k), inputs)}};
}

json case_of(const std::string& kind, int number, const Inputs& inputs, json values) {
  return {{"kind", kind},
          {"name", kind + " " + std::to_string(number)},
          {"labels", numbers_of(inputs.labels)},
          {"predictions", numbers_of(inputs.predictions)},
          {"weights", numbers_of(inputs.weights)},
          {"values", std::move(values)}};
}

class Cases {
 public:
  explicit Cases(const Path& file) : out_(file) {}

  void add_regression(int number) {
    Random random(1, 0, static_cast<std::uint64_t>(number));
    const std::int64_t rows = number == 0 ? 2 : 2 + static_cast<std::int64_t>(random.below(60));
    const std::int64_t columns =
        number % 3 == 2 ? 1 + static_cast<std::int64_t>(random.below(3)) : 1;
    auto labels = torch::empty({rows, columns});
    auto predictions = torch::empty({rows, columns});
    const double offset = number % 4 == 3 ? 5000 : 0;
    const bool is_constant = number % 10 == 9;
    const bool is_right = number % 20 == 19;
    for (std::int64_t i = 0; i < labels.numel(); ++i) {
      const double label = is_constant ? 2.0 : offset + random.normal();
      labels.view({-1})[i] = label;
      predictions.view({-1})[i] = is_right ? label : label + 0.5 * random.normal();
    }
    const Inputs inputs{labels, predictions, weights(random, rows, number)};
    write(case_of("regression", number, inputs, regression_values(inputs)));
  }

  void add_classes(int number) {
    Random random(2, 0, static_cast<std::uint64_t>(number));
    const std::int64_t rows = 2 + static_cast<std::int64_t>(random.below(80));
    const std::int64_t classes = 2 + static_cast<std::int64_t>(random.below(5));
    // Every fifth has labels of one class alone.
    const std::uint64_t labelled = number % 5 == 4 ? 1 : static_cast<std::uint64_t>(classes);
    auto labels = torch::empty({rows}, torch::kLong);
    auto predictions = torch::empty({rows}, torch::kLong);
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto label = static_cast<std::int64_t>(random.below(labelled));
      labels[i] = label;
      const auto other =
          static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(classes)));
      predictions[i] = random.coin() ? label : other;
    }
    const Inputs inputs{labels, predictions, weights(random, rows, number)};
    auto made = case_of("classes", number, inputs, class_values(inputs, classes));
    made["classes"] = classes;
    write(made);
  }

  void add_binary(int number) {
    Random random(3, 0, static_cast<std::uint64_t>(number));
    const std::int64_t rows = 2 + static_cast<std::int64_t>(random.below(80));
    const std::int64_t bins = 1 + static_cast<std::int64_t>(random.below(12));
    auto labels = torch::empty({rows}, torch::kLong);
    auto predictions = torch::empty({rows}, torch::kDouble);
    // No positives, no negatives, or both.
    const double positive = number % 7 == 5 ? 0.0 : number % 7 == 6 ? 1.0 : 0.4;
    for (std::int64_t i = 0; i < rows; ++i) {
      labels[i] = random.coin(positive) ? 1 : 0;
      // Many lie on a border, or are equal.
      const double near = static_cast<double>(1 + random.below(19)) / 20;
      predictions[i] = random.coin() ? near : random.uniform(0.001, 0.999);
    }
    const Inputs inputs{labels, predictions.to(torch::kFloat).to(torch::kDouble),
                        weights(random, rows, number)};
    auto made = case_of("binary", number, inputs, binary_values(inputs, bins));
    made["bins"] = bins;
    write(made);
  }

  void add_ranking(int number) {
    Random random(4, 0, static_cast<std::uint64_t>(number));
    const std::int64_t rows = 2 + static_cast<std::int64_t>(random.below(30));
    const std::int64_t classes = 2 + static_cast<std::int64_t>(random.below(8));
    const auto k = 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(classes)));
    auto labels = torch::zeros({rows, classes}, torch::kLong);
    auto scores = torch::empty({rows, classes});
    const double positive = number % 6 == 5 ? 0.0 : 0.4;
    for (std::int64_t i = 0; i < labels.numel(); ++i) {
      labels.view({-1})[i] = random.coin(positive) ? 1 : 0;
      // There are few values, so that some are equal.
      scores.view({-1})[i] = static_cast<float>(random.below(12)) / 4;
    }
    const Inputs inputs{labels, scores, weights(random, rows, number)};
    auto made = case_of("ranking", number, inputs, ranking_values(inputs, k));
    made["k"] = k;
    write(made);
  }

 private:
  static at::Tensor weights(Random& random, std::int64_t rows, int number) {
    return number % 2 == 0 ? at::Tensor() : random_weights(random, rows);
  }
  void write(const json& made) { out_ << made.dump() << '\n'; }

  std::ofstream out_;
};

TEST(Metrics, AreThoseOfScikitLearn) {
  const auto there = run_program(kPython, {"-c", "import sklearn"}, {});
  if (there.status != 0)
    GTEST_SKIP() << "there is no python3-sklearn; scripts/nightly metrics has it";
  const TempDir folder;
  const Path file = folder / "cases.jsonl";
  {
    Cases cases(file);
    for (int number = 0; number < 200; ++number) {
      cases.add_regression(number);
      cases.add_classes(number);
      cases.add_binary(number);
      cases.add_ranking(number);
    }
  }
  const auto outcome = run_program(kPython, {METRICS_SCRIPT, file.string()}, {});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  std::cout << outcome.out;
}

}  // namespace
}  // namespace muster
