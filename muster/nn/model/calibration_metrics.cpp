#include "muster/nn/model/calibration_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/nn/model/metric_input_internal.h"

namespace muster {

using internal::LabelledPredictions;
using internal::same_kind;

namespace {

constexpr std::int64_t kMaxBins = 1000;

// The borders between the bins, as numpy.linspace has them.
std::vector<double> borders(std::size_t bins) {
  const double width = 1.0 / static_cast<double>(bins);
  std::vector<double> inner(bins - 1);
  for (std::size_t i = 0; i < inner.size(); ++i) inner[i] = static_cast<double>(i + 1) * width;
  return inner;
}

}  // namespace

CalibrationError::CalibrationError(std::int64_t bins) : Metric() {
  if (bins < 1 || bins > kMaxBins) {
    throw InvalidArgument("a calibration error needs 1 to {} bins, not {}", kMaxBins, bins);
  }
  bins_.resize(static_cast<std::size_t>(bins));
}

void CalibrationError::update(const at::Tensor& labels, const at::Tensor& predictions,
                              const at::Tensor& weights) {
  const LabelledPredictions<double> given(labels, predictions, weights);
  const auto inner = borders(bins_.size());
  for (std::int64_t i = 0; i < given.size(); ++i) {
    const double prediction = given.prediction[i];
    if (!(prediction >= 0.0 && prediction <= 1.0)) {
      throw InvalidArgument("prediction {} at row {} is not a probability, which calibration needs",
                            prediction, i);
    }
    const auto place = std::lower_bound(inner.begin(), inner.end(), prediction) - inner.begin();
    Bin& bin = bins_[static_cast<std::size_t>(place)];
    bin.weight.add(given.weight[i]);
    bin.predictions.add(given.weight[i] * prediction);
    bin.labels.add(given.weight[i] * given.label[i]);
  }
}

std::vector<CalibrationPoint> CalibrationError::curve() const {
  std::vector<CalibrationPoint> points;
  for (const Bin& bin : bins_) {
    const double weight = bin.weight.value();
    if (weight == 0.0) continue;
    points.push_back({.mean_prediction = bin.predictions.value() / weight,
                      .fraction_of_positives = bin.labels.value() / weight,
                      .weight = weight});
  }
  return points;
}

double CalibrationError::compute() const {
  double error = 0.0;
  double weight = 0.0;
  for (const auto& point : curve()) {
    error += point.weight * std::abs(point.mean_prediction - point.fraction_of_positives);
    weight += point.weight;
  }
  return weight == 0.0 ? 0.0 : error / weight;
}

std::optional<MetricTable> CalibrationError::table() const {
  MetricTable table{.corner = "bin",
                    .columns = {"mean prediction", "fraction of positives", "examples"}};
  for (const auto& point : curve()) {
    table.rows.push_back(std::to_string(table.rows.size() + 1));
    for (const double value : {point.mean_prediction, point.fraction_of_positives, point.weight}) {
      table.values.push_back(value);
    }
  }
  return table;
}

void CalibrationError::merge(const Metric& other) {
  const auto& same = same_kind(*this, other);
  if (same.bins_.size() != bins_.size()) {
    throw InvalidArgument("a calibration error of {} bins cannot take the state of one of {}",
                          bins_.size(), same.bins_.size());
  }
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    bins_[i].weight.merge(same.bins_[i].weight);
    bins_[i].predictions.merge(same.bins_[i].predictions);
    bins_[i].labels.merge(same.bins_[i].labels);
  }
}

void CalibrationError::reset() { bins_.assign(bins_.size(), {}); }

std::unique_ptr<Metric> CalibrationError::clone() const {
  return std::make_unique<CalibrationError>(*this);
}

void CalibrationError::write(StateWriter& out) const {
  out.u32(static_cast<std::uint32_t>(bins_.size()));
  for (const Bin& bin : bins_) {
    bin.weight.write(out);
    bin.predictions.write(out);
    bin.labels.write(out);
  }
}

void CalibrationError::read(StateReader& in) {
  const auto bins = in.u32();
  if (bins < 1 || bins > kMaxBins) throw DataLoss("metric state has {} bins", bins);
  bins_.assign(bins, {});
  for (Bin& bin : bins_) {
    bin.weight = WeightedCount::read(in);
    bin.predictions = ExactSum::read(in);
    bin.labels = ExactSum::read(in);
  }
}

}  // namespace muster
