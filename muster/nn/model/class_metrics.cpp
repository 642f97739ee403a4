#include "muster/nn/model/class_metrics.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/nn/model/metric_input_internal.h"

namespace muster {

using internal::LabelledPredictions;
using internal::same_kind;

namespace {

// Two ids and a count have more.
constexpr std::size_t kLeastCellBytes = 24;
constexpr std::size_t kLeastNameBytes = 4;

double fraction(double part, double whole) { return whole == 0.0 ? 0.0 : part / whole; }

std::int64_t class_of(double id, std::string_view what, std::int64_t row, std::int64_t classes) {
  if (id >= 0.0 && id < static_cast<double>(classes) && id == std::floor(id)) {
    return static_cast<std::int64_t>(id);
  }
  throw InvalidArgument("{} {} at row {} is not a class: give ids in [0, {})", what, id, row,
                        classes);
}

double score_of(const ClassCounts& counts, ClassScore score) {
  const double hits = counts.true_positives.value();
  const double wrong = counts.false_positives.value();
  const double missed = counts.false_negatives.value();
  if (score == ClassScore::kPrecision) return fraction(hits, hits + wrong);
  if (score == ClassScore::kRecall) return fraction(hits, hits + missed);
  return fraction(2.0 * hits, 2.0 * hits + wrong + missed);
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::int64_t classes, std::vector<std::string> names)
    : Metric(), classes_(classes), names_(std::move(names)) {
  if (classes < 1) {
    throw InvalidArgument("a confusion matrix needs at least one class, not {}", classes);
  }
  if (!names_.empty() && static_cast<std::int64_t>(names_.size()) != classes) {
    throw InvalidArgument("a confusion matrix of {} classes has {} names: give all or none",
                          classes, names_.size());
  }
}

void ConfusionMatrix::update(const at::Tensor& labels, const at::Tensor& predictions,
                             const at::Tensor& weights) {
  const LabelledPredictions<double> given(labels, predictions, weights);
  for (std::int64_t i = 0; i < given.size(); ++i) {
    const std::int64_t label = class_of(given.label[i], "label", i, classes_);
    const std::int64_t predicted = class_of(given.prediction[i], "prediction", i, classes_);
    counts_[{label, predicted}].add(given.weight[i]);
  }
}

double ConfusionMatrix::count(std::int64_t label, std::int64_t predicted) const {
  const auto found = counts_.find({label, predicted});
  return found == counts_.end() ? 0.0 : found->second.value();
}

std::map<std::int64_t, ClassCounts> ConfusionMatrix::by_class() const {
  std::map<std::int64_t, ClassCounts> classes;
  for (const auto& [cell, count] : counts_) {
    const auto [label, predicted] = cell;
    if (label == predicted) {
      classes[label].true_positives.merge(count);
    } else {
      classes[label].false_negatives.merge(count);
      classes[predicted].false_positives.merge(count);
    }
  }
  return classes;
}

double ConfusionMatrix::compute() const {
  WeightedCount right;
  WeightedCount all;
  for (const auto& [cell, count] : counts_) {
    all.merge(count);
    if (cell.first == cell.second) right.merge(count);
  }
  return fraction(right.value(), all.value());
}

std::optional<MetricTable> ConfusionMatrix::table() const {
  MetricTable table{.corner = "label / prediction", .is_heat_map = true};
  const auto classes = static_cast<std::size_t>(classes_);
  table.rows.reserve(classes);
  for (std::size_t i = 0; i < classes; ++i) {
    table.rows.push_back(names_.empty() ? std::to_string(i) : names_[i]);
  }
  table.columns = table.rows;
  table.values.assign(classes * classes, 0.0);
  for (const auto& [cell, count] : counts_) {
    table.values[static_cast<std::size_t>(cell.first * classes_ + cell.second)] = count.value();
  }
  return table;
}

void ConfusionMatrix::merge(const Metric& other) {
  const auto& same = same_kind(*this, other);
  if (same.classes_ != classes_ || same.names_ != names_) {
    throw InvalidArgument(
        "a confusion matrix of {} classes cannot take the state of one of {}, or of other names",
        classes_, same.classes_);
  }
  for (const auto& [cell, count] : same.counts_) counts_[cell].merge(count);
}

std::unique_ptr<Metric> ConfusionMatrix::clone() const {
  return std::make_unique<ConfusionMatrix>(*this);
}

void ConfusionMatrix::write(StateWriter& out) const {
  out.i64(classes_);
  out.u32(static_cast<std::uint32_t>(names_.size()));
  for (const auto& name : names_) out.string(name);
  out.u32(static_cast<std::uint32_t>(counts_.size()));
  for (const auto& [cell, count] : counts_) {
    out.i64(cell.first);
    out.i64(cell.second);
    count.write(out);
  }
}

void ConfusionMatrix::read(StateReader& in) {
  classes_ = in.i64();
  names_.clear();
  counts_.clear();
  const auto names = in.count(kLeastNameBytes);
  if (classes_ < 1 || (names != 0 && names != classes_)) {
    throw DataLoss("metric state has a confusion matrix of {} classes and {} names", classes_,
                   names);
  }
  names_.reserve(names);
  for (std::uint32_t i = 0; i < names; ++i) names_.push_back(in.string());
  for (auto left = in.count(kLeastCellBytes); left > 0; --left) {
    const std::int64_t label = in.i64();
    const std::int64_t predicted = in.i64();
    if (label < 0 || label >= classes_ || predicted < 0 || predicted >= classes_) {
      throw DataLoss("metric state counts label {} predicted as {} among {} classes", label,
                     predicted, classes_);
    }
    counts_[{label, predicted}] = WeightedCount::read(in);
  }
}

double BalancedAccuracy::compute() const {
  double sum = 0.0;
  std::int64_t classes = 0;
  for (const auto& [number, counts] : by_class()) {
    const double hits = counts.true_positives.value();
    const double labelled = hits + counts.false_negatives.value();
    if (labelled == 0.0) continue;
    sum += hits / labelled;
    ++classes;
  }
  return fraction(sum, static_cast<double>(classes));
}

std::unique_ptr<Metric> BalancedAccuracy::clone() const {
  return std::make_unique<BalancedAccuracy>(*this);
}

double ClassAverage::compute() const {
  ClassCounts all;
  double sum = 0.0;
  double weight = 0.0;
  for (const auto& [number, counts] : by_class()) {
    all.true_positives.merge(counts.true_positives);
    all.false_positives.merge(counts.false_positives);
    all.false_negatives.merge(counts.false_negatives);
    const double labelled = counts.true_positives.value() + counts.false_negatives.value();
    const double mine = average_ == Average::kWeighted ? labelled : 1.0;
    sum += mine * score_of(counts, score_);
    weight += mine;
  }
  return average_ == Average::kMicro ? score_of(all, score_) : fraction(sum, weight);
}

void ClassAverage::merge(const Metric& other) {
  const auto& same = same_kind(*this, other);
  if (same.score_ != score_ || same.average_ != average_) {
    throw InvalidArgument("an average of classes cannot take the state of another kind of average");
  }
  ConfusionMatrix::merge(other);
}

std::unique_ptr<Metric> ClassAverage::clone() const {
  return std::make_unique<ClassAverage>(*this);
}

void ClassAverage::write(StateWriter& out) const {
  out.u8(static_cast<std::uint8_t>(score_));
  out.u8(static_cast<std::uint8_t>(average_));
  ConfusionMatrix::write(out);
}

void ClassAverage::read(StateReader& in) {
  const auto score = in.u8();
  const auto average = in.u8();
  if (score > static_cast<std::uint8_t>(ClassScore::kF1) ||
      average > static_cast<std::uint8_t>(Average::kWeighted)) {
    throw DataLoss("metric state has an average {} of the score {}, which there are not", average,
                   score);
  }
  score_ = static_cast<ClassScore>(score);
  average_ = static_cast<Average>(average);
  ConfusionMatrix::read(in);
}

}  // namespace muster
