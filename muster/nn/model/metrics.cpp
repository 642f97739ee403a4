#include "muster/nn/model/metrics.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/model/metric_input_internal.h"

namespace muster {

using internal::Flat;
using internal::LabelledPredictions;
using internal::same_kind;
using internal::Weights;

namespace {

double ratio(double part, double whole) { return whole == 0.0 ? 0.0 : part / whole; }

/// Rows of scores and the classes that are right for each: one id, or multi-hot.
class LabelledRows {
 public:
  LabelledRows(const at::Tensor& labels, const at::Tensor& scores, const at::Tensor& weights)
      : rows_(scores.dim() == 2 ? scores.size(0) : -1),
        classes_(scores.dim() == 2 ? scores.size(1) : 0),
        is_hot_(labels.dim() == 2 && labels.sizes() == scores.sizes() && classes_ > 1),
        label_(labels),
        score_(scores) {
    if (classes_ < 1 || (!is_hot_ && label_.size() != rows_)) {
      throw InvalidArgument(
          "scores [{}] and labels [{}] do not go together: give scores [batch, n] and labels "
          "[batch], or multi-hot [batch, n]",
          fmt::join(scores.sizes(), ", "), fmt::join(labels.sizes(), ", "));
    }
    weights_.emplace(weights, scores.select(1, 0));
    for (std::int64_t row = 0; !is_hot_ && row < rows_; ++row) {
      if (id(row) < 0 || id(row) >= classes_) {
        throw InvalidArgument("label {} at row {} is not in [0, {})", label_[row], row, classes_);
      }
    }
  }

  std::int64_t size() const { return rows_; }
  std::int64_t classes() const { return classes_; }
  double weight(std::int64_t row) const { return (*weights_)[row]; }
  bool is_label(std::int64_t row, std::int64_t number) const {
    return is_hot_ ? label_[row * classes_ + number] != 0.0 : id(row) == number;
  }
  /// The classes of this row with a higher score than `number`.
  std::int64_t count_above(std::int64_t row, std::int64_t number) const {
    std::int64_t above = 0;
    for (std::int64_t other = 0; other < classes_; ++other) {
      above += is_above(row, other, number) ? 1 : 0;
    }
    return above;
  }
  std::vector<std::int64_t> highest(std::int64_t row, std::int64_t count) const {
    std::vector<std::int64_t> all(static_cast<std::size_t>(classes_));
    std::iota(all.begin(), all.end(), 0);
    std::partial_sort(all.begin(), all.begin() + count, all.end(),
                      [&](auto one, auto other) { return is_above(row, one, other); });
    all.resize(static_cast<std::size_t>(count));
    return all;
  }

 private:
  std::int64_t id(std::int64_t row) const { return static_cast<std::int64_t>(label_[row]); }
  // NaN counts as the lowest score, so that there is an order.
  float score(std::int64_t row, std::int64_t number) const {
    const float found = score_[row * classes_ + number];
    return std::isnan(found) ? -std::numeric_limits<float>::infinity() : found;
  }
  bool is_above(std::int64_t row, std::int64_t one, std::int64_t other) const {
    const float mine = score(row, one);
    const float theirs = score(row, other);
    return mine > theirs || (mine == theirs && one < other);
  }

  std::int64_t rows_;
  std::int64_t classes_;
  bool is_hot_;
  Flat<double> label_;
  Flat<float> score_;
  std::optional<Weights> weights_;
};

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

MeanOfHighest::MeanOfHighest(std::int64_t k) : Mean(), k_(k) {
  if (k <= 0) throw InvalidArgument("k of a top-k metric must be positive: {}", k);
}

void MeanOfHighest::merge(const Metric& other) {
  const auto& same = same_kind(*this, other);
  if (same.k_ != k_) throw InvalidArgument("top-{} cannot take the state of top-{}", k_, same.k_);
  Mean::merge(other);
}

void MeanOfHighest::write(StateWriter& out) const {
  out.i64(k_);
  Mean::write(out);
}

void MeanOfHighest::read(StateReader& in) {
  k_ = in.i64();
  if (k_ <= 0) throw DataLoss("metric state has a top-k with k = {}", k_);
  Mean::read(in);
}

void MeanOfHighest::add_labels_found(const at::Tensor& labels, const at::Tensor& scores,
                                     const at::Tensor& weights) {
  const LabelledRows rows(labels, scores, weights);
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    for (std::int64_t wanted = 0; wanted < rows.classes(); ++wanted) {
      if (rows.is_label(row, wanted)) {
        Mean::update(rows.count_above(row, wanted) < k_ ? 1.0 : 0.0, rows.weight(row));
      }
    }
  }
}

void MeanOfHighest::add_scores_right(const at::Tensor& labels, const at::Tensor& scores,
                                     const at::Tensor& weights) {
  const LabelledRows rows(labels, scores, weights);
  if (k_ > rows.classes()) {
    throw InvalidArgument("precision at {} needs as many classes, and the scores have {}", k_,
                          rows.classes());
  }
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    for (const std::int64_t found : rows.highest(row, k_)) {
      Mean::update(rows.is_label(row, found) ? 1.0 : 0.0, rows.weight(row));
    }
  }
}

void TopK::update(const at::Tensor& labels, const at::Tensor& scores, const at::Tensor& weights) {
  if (scores.dim() != 2 || labels.numel() != scores.size(0)) {
    throw InvalidArgument("top-k needs scores [batch, n] and one label a row, not [{}] and [{}]",
                          fmt::join(scores.sizes(), ", "), fmt::join(labels.sizes(), ", "));
  }
  add_labels_found(labels.reshape({-1}), scores, weights);
}

std::unique_ptr<Metric> TopK::clone() const { return std::make_unique<TopK>(*this); }

void PrecisionAtK::update(const at::Tensor& labels, const at::Tensor& scores,
                          const at::Tensor& weights) {
  add_scores_right(labels, scores, weights);
}

std::unique_ptr<Metric> PrecisionAtK::clone() const {
  return std::make_unique<PrecisionAtK>(*this);
}

void RecallAtK::update(const at::Tensor& labels, const at::Tensor& scores,
                       const at::Tensor& weights) {
  add_labels_found(labels, scores, weights);
}

std::unique_ptr<Metric> RecallAtK::clone() const { return std::make_unique<RecallAtK>(*this); }

double Perplexity::compute() const { return weight() == 0.0 ? 0.0 : std::exp(Mean::compute()); }

std::unique_ptr<Metric> Perplexity::clone() const { return std::make_unique<Perplexity>(*this); }

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

void Confusion::add(const ClassCounts& counts) {
  true_positives_.merge(counts.true_positives);
  false_positives_.merge(counts.false_positives);
  false_negatives_.merge(counts.false_negatives);
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

double F1::compute() const {
  const double hits = 2.0 * true_positives_.value();
  return ratio(hits, hits + false_positives_.value() + false_negatives_.value());
}

std::unique_ptr<Metric> F1::clone() const { return std::make_unique<F1>(*this); }

}  // namespace muster
