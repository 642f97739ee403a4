#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "muster/nn/model/exact_sum.h"
#include "muster/nn/model/metric.h"
#include "muster/nn/model/metric_set.h"

/// Streaming metrics with the definitions of tf.metrics. `weights` may be undefined, which is 1 for
/// everything, or have the shape of the values or [batch, 1] beside [batch, k]. Updates throw
/// InvalidArgument when shapes do not fit. Tensors may lie on any device.
namespace muster {

/// The weighted mean.
class Mean : public Metric {
 public:
  void update(double value, double weight = 1.0);
  void update(const at::Tensor& values, const at::Tensor& weights = {});

  std::string_view kind() const override { return "mean"; }
  double compute() const override;
  void merge(const Metric& other) override;
  void reset() override;
  std::unique_ptr<Metric> clone() const override;
  void write(StateWriter& out) const override;
  void read(StateReader& in) override;

 private:
  ExactSum sum_;
  WeightedCount weight_;
};

/// The weighted fraction of predictions that equal their labels.
class Accuracy : public Mean {
 public:
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const at::Tensor& weights = {});
  std::string_view kind() const override { return "accuracy"; }
  std::unique_ptr<Metric> clone() const override;
};

/// The accuracy of always saying the more frequent of two classes: max(mean, 1 - mean) of labels.
class AccuracyBaseline : public Mean {
 public:
  std::string_view kind() const override { return "accuracy_baseline"; }
  double compute() const override;
  std::unique_ptr<Metric> clone() const override;
};

/// The weighted fraction of rows whose label is among the k highest scores; of equal scores the
/// lower class counts as higher.
class TopK : public Mean {
 public:
  /// Throws InvalidArgument unless k is positive.
  explicit TopK(std::int64_t k = 1);
  /// Scores [batch, n]; labels [batch] or [batch, 1].
  void update(const at::Tensor& labels, const at::Tensor& scores, const at::Tensor& weights = {});
  std::string_view kind() const override { return "top_k"; }
  void merge(const Metric& other) override;
  std::unique_ptr<Metric> clone() const override;
  void write(StateWriter& out) const override;
  void read(StateReader& in) override;

 private:
  std::int64_t k_;
};

/// Weighted counts of a yes-or-no decision; a label or prediction other than 0 is a yes.
class Confusion : public Metric {
 public:
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const at::Tensor& weights = {});
  /// A prediction above `threshold` is a yes.
  void update_above(const at::Tensor& labels, const at::Tensor& predictions, float threshold,
                    const at::Tensor& weights = {});

  void merge(const Metric& other) override;
  void reset() override;
  void write(StateWriter& out) const override;
  void read(StateReader& in) override;

 protected:
  WeightedCount true_positives_, false_positives_, false_negatives_;
};

/// tp / (tp + fp), 0 when nothing was called positive.
class Precision : public Confusion {
 public:
  std::string_view kind() const override { return "precision"; }
  double compute() const override;
  std::unique_ptr<Metric> clone() const override;
};

/// tp / (tp + fn), 0 when nothing is positive.
class Recall : public Confusion {
 public:
  std::string_view kind() const override { return "recall"; }
  double compute() const override;
  std::unique_ptr<Metric> clone() const override;
};

enum class Curve : std::uint8_t { kRoc, kPrecisionRecall };

/// The area under a curve of 200 points, as tf.metrics.auc has it. One pass over the values, each
/// of which lands in the bucket between two thresholds.
class Auc : public Metric {
 public:
  explicit Auc(Curve curve = Curve::kRoc, bool careful_interpolation = false);
  /// Predictions in [0, 1], else InvalidArgument; a label other than 0 is a yes.
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const at::Tensor& weights = {});

  std::string_view kind() const override { return "auc"; }
  double compute() const override;
  void merge(const Metric& other) override;
  void reset() override;
  std::unique_ptr<Metric> clone() const override;
  void write(StateWriter& out) const override;
  void read(StateReader& in) override;

 private:
  struct Points;
  Points points() const;

  Curve curve_;
  bool careful_interpolation_;
  // Bucket i holds the predictions above exactly i thresholds.
  std::vector<WeightedCount> positives_, negatives_;
};

/// The area under the curve through every distinct prediction. Remembers all of them: 12 bytes
/// each. For precision and recall it is the average precision, which interpolates nothing.
class ExactAuc : public Metric {
 public:
  explicit ExactAuc(Curve curve = Curve::kRoc);
  /// Predictions may be any numbers but NaN.
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const at::Tensor& weights = {});

  std::string_view kind() const override { return "exact_auc"; }
  double compute() const override;
  void merge(const Metric& other) override;
  void reset() override;
  std::unique_ptr<Metric> clone() const override;
  void write(StateWriter& out) const override;
  void read(StateReader& in) override;

 private:
  struct Seen {
    float prediction;
    float weight;
    bool positive;
    auto operator<=>(const Seen&) const = default;
  };
  std::vector<Seen> sorted() const;

  Curve curve_;
  std::vector<Seen> seen_;
};

/// The metrics of this header, for MetricSet::from_bytes(). A program adds
/// its own: `kinds.merge(metric_kinds<MyMetric>())`.
inline const MetricSet::Kinds& built_in_metrics() {
  static const MetricSet::Kinds kinds =
      metric_kinds<Mean, Accuracy, AccuracyBaseline, TopK, Precision, Recall, Auc, ExactAuc>();
  return kinds;
}

}  // namespace muster
