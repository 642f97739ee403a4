#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/nn/model/exact_sum.h"
#include "muster/nn/model/metric.h"

namespace muster {

/// A bin of a calibration curve.
struct CalibrationPoint {
  double mean_prediction = 0;
  double fraction_of_positives = 0;
  /// The weight of the examples in it.
  double weight = 0;
};

/// The expected calibration error: how far predicted probabilities are from the frequencies that
/// they predict. Predictions go into bins of the same width; the error is the weighted mean over
/// the bins of |mean prediction - fraction of positives|.
class CalibrationError : public Metric {
 public:
  /// Throws InvalidArgument unless bins is in [1, 1000].
  explicit CalibrationError(std::int64_t bins = 10);
  /// Predictions in [0, 1], else InvalidArgument; labels are 0, 1 or a probability. A prediction on
  /// the border of two bins belongs to the lower one.
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const at::Tensor& weights = {});

  /// The bins that are not empty, from low to high predictions.
  std::vector<CalibrationPoint> curve() const;

  std::string_view kind() const override { return "calibration_error"; }
  double compute() const override;
  std::optional<MetricTable> table() const override;
  void merge(const Metric& other) override;
  void reset() override;
  std::unique_ptr<Metric> clone() const override;
  void write(StateWriter& out) const override;
  void read(StateReader& in) override;

 private:
  struct Bin {
    WeightedCount weight;
    ExactSum predictions;
    ExactSum labels;
  };
  std::vector<Bin> bins_;
};

}  // namespace muster
