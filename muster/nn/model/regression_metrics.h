#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "muster/nn/model/exact_sum.h"
#include "muster/nn/model/metric.h"

/// Metrics of predicted numbers, with the definitions of scikit-learn: each column of the labels
/// has a value of its own, and theirs are averaged.
namespace muster {

/// Common part: sums for each column. Columns are those of labels [batch, d]; labels [batch] are
/// one column.
class RegressionMetric : public Metric {
 public:
  /// Throws InvalidArgument when labels and predictions are not as many, weights do not go with
  /// them, or the number of columns changes.
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const at::Tensor& weights = {});

  double compute() const override;
  void merge(const Metric& other) override;
  void reset() override { columns_.clear(); }
  void write(StateWriter& out) const override;
  void read(StateReader& in) override;

 protected:
  /// Sums over the examples of one column. `error` is what add() makes it; the two of labels are
  /// zero except for R2.
  struct Column {
    std::int64_t examples = 0;
    WeightedCount weight;
    ExactSum error;
    ExactSum labels;
    ExactSum squared_labels;
  };

  virtual void add(Column& column, double label, double prediction, double weight) const = 0;
  virtual double value(const Column& column) const = 0;

 private:
  std::vector<Column> columns_;
};

/// The weighted mean of (label - prediction)^2.
class MeanSquaredError : public RegressionMetric {
 public:
  std::string_view kind() const override { return "mean_squared_error"; }
  std::unique_ptr<Metric> clone() const override;

 protected:
  void add(Column& column, double label, double prediction, double weight) const override;
  double value(const Column& column) const override;
};

/// The root of the mean squared error of each column.
class RootMeanSquaredError : public MeanSquaredError {
 public:
  std::string_view kind() const override { return "root_mean_squared_error"; }
  std::unique_ptr<Metric> clone() const override;

 protected:
  double value(const Column& column) const override;
};

/// The weighted mean of |label - prediction|.
class MeanAbsoluteError : public RegressionMetric {
 public:
  std::string_view kind() const override { return "mean_absolute_error"; }
  std::unique_ptr<Metric> clone() const override;

 protected:
  void add(Column& column, double label, double prediction, double weight) const override;
  double value(const Column& column) const override;
};

/// The weighted mean of |label - prediction| / |label|, as a fraction: 0.1 is 10 %. A label of 0
/// counts as 2^-52.
class MeanAbsolutePercentageError : public MeanAbsoluteError {
 public:
  std::string_view kind() const override { return "mean_absolute_percentage_error"; }
  std::unique_ptr<Metric> clone() const override;

 protected:
  void add(Column& column, double label, double prediction, double weight) const override;
};

/// The coefficient of determination, 1 - (squared errors) / (squared distances of the labels from
/// their mean). Where all labels are equal: 1 without an error, else 0. NaN for a single example.
class R2 : public RegressionMetric {
 public:
  std::string_view kind() const override { return "r2"; }
  std::unique_ptr<Metric> clone() const override;

 protected:
  void add(Column& column, double label, double prediction, double weight) const override;
  double value(const Column& column) const override;
};

}  // namespace muster
