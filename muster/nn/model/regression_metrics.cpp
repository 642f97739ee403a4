#include "muster/nn/model/regression_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/nn/model/metric_input_internal.h"

namespace muster {

using internal::LabelledPredictions;
using internal::same_kind;

namespace {

// Fewer bytes than the state of a column can have.
constexpr std::size_t kLeastColumnBytes = 16;

double mean_error(double error, double weight) { return weight == 0.0 ? 0.0 : error / weight; }

/// A number of twice a double's precision: the sum of both.
struct Pair {
  double high;
  double low;
};

// The differences of squares below lose up to all digits of a double.
Pair pair_of(const ExactSum& sum) {
  const double high = sum.value();
  ExactSum rest = sum;
  rest.add(-high);
  return {high, rest.value()};
}

Pair product(const Pair& a, const Pair& b) {
  const double high = a.high * b.high;
  const double rest = std::fma(a.high, b.high, -high);
  return {high, std::fma(a.high, b.low, std::fma(a.low, b.high, rest))};
}

double difference(const Pair& a, const Pair& b) { return (a.high - b.high) + (a.low - b.low); }

// The product without rounding: its nearest double, and what that leaves.
void add_product(ExactSum& sum, double a, double b) {
  const double high = a * b;
  sum.add(high);
  if (std::isfinite(high)) sum.add(std::fma(a, b, -high));
}

}  // namespace

void RegressionMetric::update(const at::Tensor& labels, const at::Tensor& predictions,
                              const at::Tensor& weights) {
  const LabelledPredictions<double> given(labels, predictions, weights);
  if (given.size() == 0) return;
  const std::int64_t rows = predictions.dim() == 0 ? 1 : predictions.size(0);
  const auto columns = static_cast<std::size_t>(given.size() / rows);
  if (columns_.empty()) columns_.resize(columns);
  if (columns_.size() != columns) {
    throw InvalidArgument("the metric {} has seen examples of {} values, and these have {}", kind(),
                          columns_.size(), columns);
  }
  for (std::int64_t i = 0; i < given.size(); ++i) {
    Column& column = columns_[static_cast<std::size_t>(i) % columns];
    ++column.examples;
    column.weight.add(given.weight[i]);
    add(column, given.label[i], given.prediction[i], given.weight[i]);
  }
}

double RegressionMetric::compute() const {
  if (columns_.empty()) return 0.0;
  double sum = 0.0;
  for (const Column& column : columns_) sum += value(column);
  return sum / static_cast<double>(columns_.size());
}

void RegressionMetric::merge(const Metric& other) {
  const auto& same = same_kind(*this, other);
  if (same.columns_.empty()) return;
  if (columns_.empty()) columns_.resize(same.columns_.size());
  if (columns_.size() != same.columns_.size()) {
    throw InvalidArgument("the metric {} of {} values cannot take the state of one of {}", kind(),
                          columns_.size(), same.columns_.size());
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].examples += same.columns_[i].examples;
    columns_[i].weight.merge(same.columns_[i].weight);
    columns_[i].error.merge(same.columns_[i].error);
    columns_[i].labels.merge(same.columns_[i].labels);
    columns_[i].squared_labels.merge(same.columns_[i].squared_labels);
  }
}

void RegressionMetric::write(StateWriter& out) const {
  out.u32(static_cast<std::uint32_t>(columns_.size()));
  for (const Column& column : columns_) {
    out.i64(column.examples);
    column.weight.write(out);
    column.error.write(out);
    column.labels.write(out);
    column.squared_labels.write(out);
  }
}

void RegressionMetric::read(StateReader& in) {
  columns_.clear();
  columns_.resize(in.count(kLeastColumnBytes));
  for (Column& column : columns_) {
    column.examples = in.i64();
    column.weight = WeightedCount::read(in);
    column.error = ExactSum::read(in);
    column.labels = ExactSum::read(in);
    column.squared_labels = ExactSum::read(in);
  }
}

void MeanSquaredError::add(Column& column, double label, double prediction, double weight) const {
  const double error = label - prediction;
  column.error.add(weight * (error * error));
}

double MeanSquaredError::value(const Column& column) const {
  return mean_error(column.error.value(), column.weight.value());
}

std::unique_ptr<Metric> MeanSquaredError::clone() const {
  return std::make_unique<MeanSquaredError>(*this);
}

double RootMeanSquaredError::value(const Column& column) const {
  return std::sqrt(MeanSquaredError::value(column));
}

std::unique_ptr<Metric> RootMeanSquaredError::clone() const {
  return std::make_unique<RootMeanSquaredError>(*this);
}

void MeanAbsoluteError::add(Column& column, double label, double prediction, double weight) const {
  column.error.add(weight * std::abs(label - prediction));
}

double MeanAbsoluteError::value(const Column& column) const {
  return mean_error(column.error.value(), column.weight.value());
}

std::unique_ptr<Metric> MeanAbsoluteError::clone() const {
  return std::make_unique<MeanAbsoluteError>(*this);
}

void MeanAbsolutePercentageError::add(Column& column, double label, double prediction,
                                      double weight) const {
  const double size = std::max(std::abs(label), std::numeric_limits<double>::epsilon());
  column.error.add(weight * (std::abs(label - prediction) / size));
}

std::unique_ptr<Metric> MeanAbsolutePercentageError::clone() const {
  return std::make_unique<MeanAbsolutePercentageError>(*this);
}

void R2::add(Column& column, double label, double prediction, double weight) const {
  const double error = label - prediction;
  column.error.add(weight * (error * error));
  add_product(column.labels, weight, label);
  const double square = label * label;
  add_product(column.squared_labels, weight, square);
  if (std::isfinite(square)) {
    add_product(column.squared_labels, weight, std::fma(label, label, -square));
  }
}

double R2::value(const Column& column) const {
  if (column.examples < 2) return std::numeric_limits<double>::quiet_NaN();
  const double weight = column.weight.value();
  if (weight == 0.0) return 0.0;
  const Pair sum = pair_of(column.labels);
  const Pair weighted_squares = product({weight, 0.0}, pair_of(column.squared_labels));
  double spread = difference(weighted_squares, product(sum, sum));
  // Equal labels leave the rounding of the pairs.
  if (spread <= 0x1p-90 * weighted_squares.high) spread = 0.0;
  const double error = column.error.value();
  if (spread > 0.0) return 1.0 - error / (spread / weight);
  return error > 0.0 ? 0.0 : 1.0;
}

std::unique_ptr<Metric> R2::clone() const { return std::make_unique<R2>(*this); }

}  // namespace muster
