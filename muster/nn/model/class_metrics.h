#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/nn/model/exact_sum.h"
#include "muster/nn/model/metric.h"

/// Metrics of predicted classes, with the definitions of scikit-learn.
namespace muster {

/// Weighted counts of one class against all others.
struct ClassCounts {
  WeightedCount true_positives;
  WeightedCount false_positives;
  WeightedCount false_negatives;
};

/// How often each class was predicted for each label. Its value is the accuracy; its table has a
/// row per label and a column per predicted class.
class ConfusionMatrix : public Metric {
 public:
  /// `names` are shown in the table; without them, the ids. Throws InvalidArgument unless classes
  /// is positive and there are as many names as classes, or none.
  explicit ConfusionMatrix(std::int64_t classes = 2, std::vector<std::string> names = {});
  /// Ids in [0, classes), else InvalidArgument.
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const at::Tensor& weights = {});

  /// The weight of the examples of this label for which this class was predicted.
  double count(std::int64_t label, std::int64_t predicted) const;
  /// The counts of every class that is the label or the prediction of an example.
  std::map<std::int64_t, ClassCounts> by_class() const;

  std::string_view kind() const override { return "confusion_matrix"; }
  double compute() const override;
  std::optional<MetricTable> table() const override;
  void merge(const Metric& other) override;
  void reset() override { counts_.clear(); }
  std::unique_ptr<Metric> clone() const override;
  void write(StateWriter& out) const override;
  void read(StateReader& in) override;

 private:
  std::int64_t classes_;
  std::vector<std::string> names_;
  std::map<std::pair<std::int64_t, std::int64_t>, WeightedCount> counts_;
};

/// The mean of the recalls of the classes that are labels.
class BalancedAccuracy : public ConfusionMatrix {
 public:
  explicit BalancedAccuracy(std::int64_t classes = 2) : ConfusionMatrix(classes) {}
  std::string_view kind() const override { return "balanced_accuracy"; }
  double compute() const override;
  std::optional<MetricTable> table() const override { return std::nullopt; }
  std::unique_ptr<Metric> clone() const override;
};

/// Score of a class that a ClassAverage averages.
enum class ClassScore : std::uint8_t { kPrecision, kRecall, kF1 };

/// How scores of classes become one. Classes that are neither label nor prediction do not count.
enum class Average : std::uint8_t {
  /// All classes weigh the same.
  kMacro,
  /// The score of the sums of all classes' counts.
  kMicro,
  /// Each class by the weight of its labels.
  kWeighted,
};

/// Precision, recall or F1 of the classes, averaged. A score without a denominator is 0.
class ClassAverage : public ConfusionMatrix {
 public:
  explicit ClassAverage(ClassScore score = ClassScore::kF1, Average average = Average::kMacro,
                        std::int64_t classes = 2)
      : ConfusionMatrix(classes), score_(score), average_(average) {}
  std::string_view kind() const override { return "class_average"; }
  double compute() const override;
  std::optional<MetricTable> table() const override { return std::nullopt; }
  void merge(const Metric& other) override;
  std::unique_ptr<Metric> clone() const override;
  void write(StateWriter& out) const override;
  void read(StateReader& in) override;

 private:
  ClassScore score_;
  Average average_;
};

}  // namespace muster
