#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "muster/nn/model/calibration_metrics.h"
#include "muster/nn/model/class_metrics.h"
#include "muster/nn/model/exact_sum.h"
#include "muster/nn/model/metric.h"
#include "muster/nn/model/metric_set.h"
#include "muster/nn/model/regression_metrics.h"

/// Streaming metrics with the definitions of tf.metrics, or, where that has none, of scikit-learn.
/// `weights` may be undefined, which is 1 for
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

 protected:
  double weight() const { return weight_.value(); }

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

/// A weighted mean about the k highest scores of each row; of equal scores that of the lower class
/// counts as higher.
class MeanOfHighest : public Mean {
 public:
  /// Throws InvalidArgument unless k is positive.
  explicit MeanOfHighest(std::int64_t k);
  void merge(const Metric& other) override;
  void write(StateWriter& out) const override;
  void read(StateReader& in) override;

 protected:
  /// Whether each label, and each of the k highest scores, has its counterpart: adds them up.
  void add_labels_found(const at::Tensor& labels, const at::Tensor& scores,
                        const at::Tensor& weights);
  void add_scores_right(const at::Tensor& labels, const at::Tensor& scores,
                        const at::Tensor& weights);
  std::int64_t k() const { return k_; }

 private:
  std::int64_t k_;
};

/// The weighted fraction of rows whose label is among the k highest scores.
class TopK : public MeanOfHighest {
 public:
  explicit TopK(std::int64_t k = 1) : MeanOfHighest(k) {}
  /// Scores [batch, n]; labels [batch] or [batch, 1].
  void update(const at::Tensor& labels, const at::Tensor& scores, const at::Tensor& weights = {});
  std::string_view kind() const override { return "top_k"; }
  std::unique_ptr<Metric> clone() const override;
};

/// The share of the classes with the k highest scores that are labels of their row.
class PrecisionAtK : public MeanOfHighest {
 public:
  explicit PrecisionAtK(std::int64_t k = 1) : MeanOfHighest(k) {}
  /// Scores [batch, n] of at least k classes; labels are one id per row, [batch] or [batch, 1], or
  /// multi-hot [batch, n]. Weights are one per row.
  void update(const at::Tensor& labels, const at::Tensor& scores, const at::Tensor& weights = {});
  std::string_view kind() const override { return "precision_at_k"; }
  std::unique_ptr<Metric> clone() const override;
};

/// The share of the labels that are among the k highest scores of their row.
class RecallAtK : public MeanOfHighest {
 public:
  explicit RecallAtK(std::int64_t k = 1) : MeanOfHighest(k) {}
  /// As PrecisionAtK::update().
  void update(const at::Tensor& labels, const at::Tensor& scores, const at::Tensor& weights = {});
  std::string_view kind() const override { return "recall_at_k"; }
  std::unique_ptr<Metric> clone() const override;
};

/// e to the weighted mean of cross entropies, in nats: one per example, or per token.
class Perplexity : public Mean {
 public:
  std::string_view kind() const override { return "perplexity"; }
  double compute() const override;
  std::unique_ptr<Metric> clone() const override;
};

/// Weighted counts of a yes-or-no decision; a label or prediction other than 0 is a yes.
class Confusion : public Metric {
 public:
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const at::Tensor& weights = {});
  /// A prediction above `threshold` is a yes.
  void update_above(const at::Tensor& labels, const at::Tensor& predictions, float threshold,
                    const at::Tensor& weights = {});
  /// Adds counts that were made elsewhere: those of one class of a ConfusionMatrix.
  void add(const ClassCounts& counts);

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

/// 2 tp / (2 tp + fp + fn), the harmonic mean of precision and recall; 0 without a true positive.
class F1 : public Confusion {
 public:
  std::string_view kind() const override { return "f1"; }
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

/// The metrics of this header and those it includes, for MetricSet::from_bytes(). A program adds
/// its own: `kinds.merge(metric_kinds<MyMetric>())`.
inline const MetricSet::Kinds& built_in_metrics() {
  static const MetricSet::Kinds kinds =
      metric_kinds<Mean, Accuracy, AccuracyBaseline, TopK, Precision, Recall, Auc, ExactAuc,
                   PrecisionAtK, RecallAtK, Perplexity, F1, ConfusionMatrix, BalancedAccuracy,
                   ClassAverage, CalibrationError, MeanSquaredError, RootMeanSquaredError,
                   MeanAbsoluteError, MeanAbsolutePercentageError, R2>();
  return kinds;
}

}  // namespace muster
