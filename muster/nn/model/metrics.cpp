#include "muster/nn/model/metrics.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/nn/model/metric_input_internal.h"

namespace muster {

using internal::Flat;
using internal::LabelledPredictions;
using internal::same_kind;
using internal::Weights;

namespace {

double ratio(double part, double whole) { return whole == 0.0 ? 0.0 : part / whole; }

}  // namespace

void Mean::update(double value, double weight) {
  sum_.add(value * weight);
  weight_.add(weight);
}

void Mean::update(const at::Tensor& values, const at::Tensor& weights) {
  const Flat<double> flat(values);
  const Weights weight(weights, values);
  for (std::int64_t i = 0; i < flat.size(); ++i) update(flat[i], weight[i]);
}

double Mean::compute() const { return ratio(sum_.value(), weight_.value()); }

void Mean::merge(const Metric& other) {
  const auto& same = same_kind(*this, other);
  sum_.merge(same.sum_);
  weight_.merge(same.weight_);
}

void Mean::reset() {
  sum_ = {};
  weight_ = {};
}

std::unique_ptr<Metric> Mean::clone() const { return std::make_unique<Mean>(*this); }

void Mean::write(StateWriter& out) const {
  sum_.write(out);
  weight_.write(out);
}

void Mean::read(StateReader& in) {
  sum_ = ExactSum::read(in);
  weight_ = WeightedCount::read(in);
}

void Accuracy::update(const at::Tensor& labels, const at::Tensor& predictions,
                      const at::Tensor& weights) {
  const LabelledPredictions<double> given(labels, predictions, weights);
  for (std::int64_t i = 0; i < given.size(); ++i) {
    Mean::update(given.label[i] == given.prediction[i] ? 1.0 : 0.0, given.weight[i]);
  }
}

std::unique_ptr<Metric> Accuracy::clone() const { return std::make_unique<Accuracy>(*this); }

double AccuracyBaseline::compute() const {
  const double mean = Mean::compute();
  return std::max(mean, 1.0 - mean);
}

std::unique_ptr<Metric> AccuracyBaseline::clone() const {
  return std::make_unique<AccuracyBaseline>(*this);
}

TopK::TopK(std::int64_t k) : k_(k) {
  if (k <= 0) throw InvalidArgument("k of a top-k metric must be positive: {}", k);
}

void TopK::update(const at::Tensor& labels, const at::Tensor& scores, const at::Tensor& weights) {
  if (scores.dim() != 2 || labels.numel() != scores.size(0)) {
    throw InvalidArgument("top-k needs scores [batch, n] and one label a row, not [{}] and [{}]",
                          fmt::join(scores.sizes(), ", "), fmt::join(labels.sizes(), ", "));
  }
  const Flat<double> label(labels);
  const Flat<float> score(scores);
  const Weights weight(weights, labels);
  const std::int64_t classes = scores.size(1);
  for (std::int64_t row = 0; row < label.size(); ++row) {
    const auto wanted = static_cast<std::int64_t>(label[row]);
    if (wanted < 0 || wanted >= classes) {
      throw InvalidArgument("label {} at row {} is not in [0, {})", label[row], row, classes);
    }
    const float mine = score[row * classes + wanted];
    std::int64_t above = 0;
    for (std::int64_t other = 0; other < classes; ++other) {
      const float theirs = score[row * classes + other];
      above += theirs > mine || (theirs == mine && other < wanted) ? 1 : 0;
    }
    Mean::update(above < k_ ? 1.0 : 0.0, weight[row]);
  }
}

void TopK::merge(const Metric& other) {
  const auto& same = same_kind(*this, other);
  if (same.k_ != k_) throw InvalidArgument("top-{} cannot take the state of top-{}", k_, same.k_);
  Mean::merge(other);
}

std::unique_ptr<Metric> TopK::clone() const { return std::make_unique<TopK>(*this); }

void TopK::write(StateWriter& out) const {
  out.i64(k_);
  Mean::write(out);
}

void TopK::read(StateReader& in) {
  k_ = in.i64();
  if (k_ <= 0) throw DataLoss("metric state has a top-k with k = {}", k_);
  Mean::read(in);
}

void Confusion::update(const at::Tensor& labels, const at::Tensor& predictions,
                       const at::Tensor& weights) {
  const LabelledPredictions<float> given(labels, predictions, weights);
  for (std::int64_t i = 0; i < given.size(); ++i) {
    const bool positive = given.label[i] != 0.0F;
    const bool predicted = given.prediction[i] != 0.0F;
    if (positive && predicted) true_positives_.add(given.weight[i]);
    if (!positive && predicted) false_positives_.add(given.weight[i]);
    if (positive && !predicted) false_negatives_.add(given.weight[i]);
  }
}

void Confusion::update_above(const at::Tensor& labels, const at::Tensor& predictions,
                             float threshold, const at::Tensor& weights) {
  update(labels, predictions.gt(threshold), weights);
}

void Confusion::merge(const Metric& other) {
  const auto& same = same_kind(*this, other);
  true_positives_.merge(same.true_positives_);
  false_positives_.merge(same.false_positives_);
  false_negatives_.merge(same.false_negatives_);
}

void Confusion::reset() { true_positives_ = false_positives_ = false_negatives_ = {}; }

void Confusion::write(StateWriter& out) const {
  true_positives_.write(out);
  false_positives_.write(out);
  false_negatives_.write(out);
}

void Confusion::read(StateReader& in) {
  true_positives_ = WeightedCount::read(in);
  false_positives_ = WeightedCount::read(in);
  false_negatives_ = WeightedCount::read(in);
}

double Precision::compute() const {
  const double hits = true_positives_.value();
  return ratio(hits, hits + false_positives_.value());
}

std::unique_ptr<Metric> Precision::clone() const { return std::make_unique<Precision>(*this); }

double Recall::compute() const {
  const double hits = true_positives_.value();
  return ratio(hits, hits + false_negatives_.value());
}

std::unique_ptr<Metric> Recall::clone() const { return std::make_unique<Recall>(*this); }

}  // namespace muster
