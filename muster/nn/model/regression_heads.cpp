#include <torch/types.h>

#include <limits>

#include "muster/base/error.h"
#include "muster/nn/model/head_internal.h"
#include "muster/nn/model/head_labels_internal.h"
#include "muster/nn/model/sigmoid_loss_internal.h"

namespace muster {
namespace {

using internal::Label;

/// Metrics, predictions and signatures that all regressions share.
class RegressionBase : public internal::SimpleHead {
 public:
  using SimpleHead::SimpleHead;

  MetricSet metrics(const at::Tensor& logits, const Batch& batch,
                    const HeadLoss& loss) const override {
    MetricSet set;
    set.add(key("average_loss"), Mean()).update(loss.unreduced, loss.weights);
    set.add(key("prediction/mean"), Mean()).update(value_of(logits.detach()), loss.weights);
    const auto labels = targets_like(batch.labels, logits);
    set.add(key("label/mean"), Mean()).update(labels, loss.weights);
    set.add(key("rmse"), RootMeanSquaredError())
        .update(labels, value_of(logits.detach()), loss.weights);
    return set;
  }

  MetricSet detailed_metrics(const at::Tensor& logits, const Batch& batch,
                             const HeadLoss& loss) const override {
    const auto labels = targets_like(batch.labels, logits);
    const auto predicted = value_of(logits.detach());
    MetricSet set;
    set.add(key("mae"), MeanAbsoluteError()).update(labels, predicted, loss.weights);
    set.add(key("mape"), MeanAbsolutePercentageError()).update(labels, predicted, loss.weights);
    set.add(key("r2"), R2()).update(labels, predicted, loss.weights);
    return set;
  }

  Features predictions(const at::Tensor& logits) const override {
    if (!has_link()) return {{"predictions", logits}};
    return {{"predictions", value_of(logits)}, {"logits", logits}};
  }

  std::vector<ExportOutput> export_outputs() const override {
    const ExportOutput regression{.name = kServingDefault,
                                  .kind = SignatureKind::kRegress,
                                  .outputs = {{"outputs", "predictions"}}};
    auto named = regression;
    named.name = "regression";
    return {regression, named,
            has_link() ? internal::predict_output({"predictions", "logits"})
                       : internal::predict_output({"predictions"})};
  }

 protected:
  /// Whether predictions are other numbers than the logits.
  virtual bool has_link() const = 0;
  virtual at::Tensor value_of(const at::Tensor& logits) const = 0;
  virtual std::pair<double, double> label_range() const = 0;

  at::Tensor targets(const Features& labels) const override {
    const auto label = Label::of(labels, name());
    const auto values = internal::dense_label(label, logits_dimension());
    const auto [low, high] = label_range();
    internal::check_range(label, values, low, high);
    return values.is_floating_point() ? values : values.to(torch::kFloat);
  }

  std::int64_t losses_per_example() const override { return logits_dimension(); }
};

constexpr double kLargest = std::numeric_limits<double>::max();

class RegressionHead : public RegressionBase {
 public:
  using RegressionBase::RegressionBase;

 protected:
  bool has_link() const override { return false; }
  at::Tensor value_of(const at::Tensor& logits) const override { return logits; }
  std::pair<double, double> label_range() const override { return {-kLargest, kLargest}; }
  at::Tensor raw_loss(const at::Tensor& logits, const at::Tensor& targets,
                      std::int64_t reduction) const override {
    return at::mse_loss(logits, targets, reduction);
  }
};

class PoissonHead : public RegressionBase {
 public:
  using RegressionBase::RegressionBase;

 protected:
  bool has_link() const override { return true; }
  at::Tensor value_of(const at::Tensor& logits) const override { return logits.exp(); }
  std::pair<double, double> label_range() const override { return {0.0, kLargest}; }
  at::Tensor raw_loss(const at::Tensor& logits, const at::Tensor& targets,
                      std::int64_t reduction) const override {
    // With Stirling's approximation of log(z!) for z > 1. The epsilon is for rates, not logarithms.
    return at::poisson_nll_loss(logits, targets, /*log_input=*/true, /*full=*/true, /*eps=*/1e-8,
                                reduction);
  }
};

class LogisticRegressionHead : public RegressionBase {
 public:
  using RegressionBase::RegressionBase;

 protected:
  bool has_link() const override { return true; }
  at::Tensor value_of(const at::Tensor& logits) const override { return logits.sigmoid(); }
  std::pair<double, double> label_range() const override { return {0.0, 1.0}; }
  at::Tensor raw_loss(const at::Tensor& logits, const at::Tensor& targets,
                      std::int64_t reduction) const override {
    return internal::sigmoid_cross_entropy(logits, targets, reduction);
  }
};

template <typename Kind>
HeadPtr make_regression(std::string_view kind, std::int64_t label_dimension, HeadOptions options) {
  if (label_dimension < 1) {
    throw InvalidArgument("{}: label_dimension must be positive: {}", kind, label_dimension);
  }
  internal::reject_option(!options.label_vocabulary.empty(), kind, "label_vocabulary");
  internal::reject_option(!options.thresholds.empty(), kind, "thresholds");
  internal::reject_option(!options.classes_for_class_based_metrics.empty(), kind,
                          "classes_for_class_based_metrics");
  internal::reject_option(options.label_smoothing != 0, kind, "label_smoothing");
  internal::reject_option(options.focal_gamma != 0, kind, "focal_gamma");
  internal::reject_option(!options.class_weights.empty(), kind, "class_weights");
  return std::make_shared<const Kind>(label_dimension, std::move(options));
}

}  // namespace

HeadPtr regression_head(std::int64_t label_dimension, HeadOptions options) {
  return make_regression<RegressionHead>("regression_head", label_dimension, std::move(options));
}

HeadPtr poisson_head(std::int64_t label_dimension, HeadOptions options) {
  return make_regression<PoissonHead>("poisson_head", label_dimension, std::move(options));
}

HeadPtr logistic_regression_head(HeadOptions options) {
  return make_regression<LogisticRegressionHead>("logistic_regression_head", 1, std::move(options));
}

}  // namespace muster
