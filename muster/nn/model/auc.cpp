#include <algorithm>
#include <array>
#include <cmath>

#include "muster/base/error.h"
#include "muster/nn/model/metric_input_internal.h"
#include "muster/nn/model/metrics.h"

namespace muster {

using internal::LabelledPredictions;
using internal::same_kind;

namespace {

constexpr int kThresholds = 200;
constexpr double kEpsilon = 1e-6;

// -1e-7, 1/199, ..., 198/199, 1 + 1e-7, in the predictions' precision.
const std::array<float, kThresholds>& thresholds() {
  static const auto values = [] {
    std::array<float, kThresholds> all{};
    for (int i = 0; i < kThresholds; ++i) {
      all[static_cast<std::size_t>(i)] = static_cast<float>(i / double{kThresholds - 1});
    }
    all.front() = -1e-7F;
    all.back() = static_cast<float>(1.0 + 1e-7);
    return all;
  }();
  return values;
}

// How many thresholds a prediction in [0, 1] is above. The thresholds are evenly spaced, so its
// place is known to within one, and comparing decides as tf.metrics.auc would.
std::size_t bucket_of(float prediction) {
  const auto& all = thresholds();
  auto bucket = static_cast<std::size_t>(prediction * float{kThresholds - 1}) + 1;
  while (bucket > 1 && prediction <= all[bucket - 1]) --bucket;
  while (bucket < all.size() && prediction > all[bucket]) ++bucket;
  return bucket;
}

double trapezoid(double x0, double x1, double y0, double y1) { return (x0 - x1) * (y0 + y1) / 2.0; }

Curve read_curve(StateReader& in) {
  const auto curve = in.u8();
  if (curve > 1) throw DataLoss("metric state has a curve {} before offset {}", curve, in.offset());
  return static_cast<Curve>(curve);
}

}  // namespace

// Weighted counts by threshold: what is above it and what is not.
struct Auc::Points {
  std::array<double, kThresholds> tp{}, fp{}, fn{}, tn{};
};

Auc::Auc(Curve curve, bool careful_interpolation)
    : curve_(curve),
      careful_interpolation_(careful_interpolation),
      positives_(kThresholds + 1),
      negatives_(kThresholds + 1) {}

void Auc::update(const at::Tensor& labels, const at::Tensor& predictions,
                 const at::Tensor& weights) {
  const LabelledPredictions<float> given(labels, predictions, weights);
  for (std::int64_t i = 0; i < given.size(); ++i) {
    const float prediction = given.prediction[i];
    if (!(prediction >= 0.0F && prediction <= 1.0F)) {
      throw InvalidArgument("prediction {} (value {}) is not in [0, 1]: AUC wants probabilities", i,
                            prediction);
    }
    auto& side = given.label[i] != 0.0F ? positives_ : negatives_;
    side[bucket_of(prediction)].add(given.weight[i]);
  }
}

Auc::Points Auc::points() const {
  Points points;
  double tp = 0.0;
  double fp = 0.0;
  for (std::size_t i = kThresholds; i-- > 0;) {
    points.tp[i] = tp += positives_[i + 1].value();
    points.fp[i] = fp += negatives_[i + 1].value();
  }
  // Nothing is in bucket 0, as every prediction is above the first threshold.
  for (std::size_t i = 0; i < kThresholds; ++i) {
    points.fn[i] = tp - points.tp[i];
    points.tn[i] = fp - points.fp[i];
  }
  return points;
}

namespace {

// The area between two points of a precision-recall curve on which true positives grow evenly with
// all that is called positive: precision is then (intercept + slope p) / p.
double careful_area(double tp0, double fp0, double tp1, double fp1, double positives) {
  const double p0 = tp0 + fp0;
  const double p1 = tp1 + fp1;
  if (p0 == p1 || positives == 0.0) return 0.0;
  const double slope = (tp0 - tp1) / (p0 - p1);
  const double intercept = tp1 - slope * p1;
  const double growth = p0 > 0.0 && p1 > 0.0 ? std::log(p0 / p1) : 0.0;
  return slope * (tp0 - tp1 + intercept * growth) / positives;
}

}  // namespace

double Auc::compute() const {
  const Points at = points();
  double area = 0.0;
  for (std::size_t i = 0; i + 1 < kThresholds; ++i) {
    const auto recall = [&](std::size_t k) {
      return (at.tp[k] + kEpsilon) / (at.tp[k] + at.fn[k] + kEpsilon);
    };
    const auto fpr = [&](std::size_t k) { return at.fp[k] / (at.fp[k] + at.tn[k] + kEpsilon); };
    const auto precision = [&](std::size_t k) {
      return (at.tp[k] + kEpsilon) / (at.tp[k] + at.fp[k] + kEpsilon);
    };
    if (curve_ == Curve::kRoc) {
      area += trapezoid(fpr(i), fpr(i + 1), recall(i), recall(i + 1));
    } else if (careful_interpolation_) {
      area += careful_area(at.tp[i], at.fp[i], at.tp[i + 1], at.fp[i + 1], at.tp[0]);
    } else {
      area += trapezoid(recall(i), recall(i + 1), precision(i), precision(i + 1));
    }
  }
  return area;
}

void Auc::merge(const Metric& other) {
  const Auc& same = same_kind(*this, other);
  if (same.curve_ != curve_ || same.careful_interpolation_ != careful_interpolation_) {
    throw InvalidArgument("the two AUCs are of different curves or summations");
  }
  for (std::size_t i = 0; i < positives_.size(); ++i) {
    positives_[i].merge(same.positives_[i]);
    negatives_[i].merge(same.negatives_[i]);
  }
}

void Auc::reset() { *this = Auc(curve_, careful_interpolation_); }

std::unique_ptr<Metric> Auc::clone() const { return std::make_unique<Auc>(*this); }

void Auc::write(StateWriter& out) const {
  out.u8(static_cast<std::uint8_t>(curve_));
  out.u8(careful_interpolation_ ? 1 : 0);
  for (const auto& count : positives_) count.write(out);
  for (const auto& count : negatives_) count.write(out);
}

void Auc::read(StateReader& in) {
  curve_ = read_curve(in);
  careful_interpolation_ = in.u8() != 0;
  for (auto& count : positives_) count = WeightedCount::read(in);
  for (auto& count : negatives_) count = WeightedCount::read(in);
}

ExactAuc::ExactAuc(Curve curve) : curve_(curve) {}

void ExactAuc::update(const at::Tensor& labels, const at::Tensor& predictions,
                      const at::Tensor& weights) {
  const LabelledPredictions<float> given(labels, predictions, weights);
  for (std::int64_t i = 0; i < given.size(); ++i) {
    if (std::isnan(given.prediction[i]) || std::isnan(given.weight[i])) {
      throw InvalidArgument("prediction {} or its weight is not a number", i);
    }
    // Adding 0 turns -0 into 0, which compares equal but has other bytes.
    seen_.push_back({.prediction = given.prediction[i] + 0.0F,
                     .weight = static_cast<float>(given.weight[i]),
                     .positive = given.label[i] != 0.0F});
  }
}

// In an order that only depends on what was seen, highest prediction first.
std::vector<ExactAuc::Seen> ExactAuc::sorted() const {
  auto all = seen_;
  std::sort(all.begin(), all.end(), [](const Seen& a, const Seen& b) { return b < a; });
  return all;
}

double ExactAuc::compute() const {
  const auto all = sorted();
  double tp = 0.0;
  double fp = 0.0;
  double roc = 0.0;
  double average_precision = 0.0;
  for (std::size_t i = 0; i < all.size();) {
    double positive = 0.0;
    double negative = 0.0;
    // Equal predictions are one point of the curve.
    for (const float tie = all[i].prediction; i < all.size() && all[i].prediction == tie; ++i) {
      (all[i].positive ? positive : negative) += static_cast<double>(all[i].weight);
    }
    roc += negative * (tp + positive / 2.0);
    tp += positive;
    fp += negative;
    if (tp + fp > 0.0) average_precision += positive * (tp / (tp + fp));
  }
  if (tp == 0.0 || (curve_ == Curve::kRoc && fp == 0.0)) return 0.0;
  return curve_ == Curve::kRoc ? roc / (tp * fp) : average_precision / tp;
}

void ExactAuc::merge(const Metric& other) {
  const ExactAuc& same = same_kind(*this, other);
  if (same.curve_ != curve_) throw InvalidArgument("the two exact AUCs are of different curves");
  // By index: `other` may be this metric.
  const auto count = same.seen_.size();
  seen_.reserve(seen_.size() + count);
  for (std::size_t i = 0; i < count; ++i) seen_.push_back(same.seen_[i]);
}

void ExactAuc::reset() { seen_.clear(); }

std::unique_ptr<Metric> ExactAuc::clone() const { return std::make_unique<ExactAuc>(*this); }

void ExactAuc::write(StateWriter& out) const {
  out.u8(static_cast<std::uint8_t>(curve_));
  out.u32(static_cast<std::uint32_t>(seen_.size()));
  for (const auto& seen : sorted()) {
    out.f32(seen.prediction);
    out.f32(seen.weight);
    out.u8(seen.positive ? 1 : 0);
  }
}

void ExactAuc::read(StateReader& in) {
  curve_ = read_curve(in);
  const auto count = in.count(9);
  seen_.clear();
  seen_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const float prediction = in.f32();
    const float weight = in.f32();
    seen_.push_back({.prediction = prediction, .weight = weight, .positive = in.u8() != 0});
  }
}

}  // namespace muster
