#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/nn/model/class_loss_internal.h"
#include "muster/nn/model/head_internal.h"
#include "muster/nn/model/head_labels_internal.h"

namespace muster {
namespace {

using internal::Label;

class BinaryClassHead : public internal::SimpleHead {
 public:
  explicit BinaryClassHead(HeadOptions options)
      : SimpleHead(1, std::move(options)),
        classes_(2, this->options().label_vocabulary),
        loss_(this->options(), 2, "binary_class_head") {}

  Features predictions(const at::Tensor& logits) const override {
    const auto rows = logits.size(0);
    const auto both = torch::cat({torch::zeros_like(logits), logits}, 1);
    // A logit of 0 is a tie, which goes to the first class.
    const auto class_ids = logits.gt(0).to(torch::kLong);
    return {{"logits", logits},
            {"logistic", logits.sigmoid()},
            {"probabilities", both.softmax(1)},
            {"class_ids", class_ids},
            {"classes", classes_.names_of(class_ids)},
            {"all_class_ids", torch::arange(2, torch::kInt).expand({rows, 2})},
            {"all_classes", classes_.all_names(rows)}};
  }

  MetricSet metrics(const at::Tensor& logits, const Batch& batch,
                    const HeadLoss& loss) const override {
    const auto labels = targets_like(batch.labels, logits);
    const auto probabilities = logits.detach().sigmoid();
    const auto class_ids = logits.gt(0);
    const auto& weights = loss.weights;
    const bool careful = options().auc_summation == AucSummation::kCareful;
    MetricSet set;
    set.add(key("average_loss"), Mean()).update(loss.unreduced, weights);
    set.add(key("accuracy"), Accuracy()).update(labels, class_ids, weights);
    set.add(key("precision"), Precision()).update(labels, class_ids, weights);
    set.add(key("recall"), Recall()).update(labels, class_ids, weights);
    set.add(key("prediction/mean"), Mean()).update(probabilities, weights);
    set.add(key("label/mean"), Mean()).update(labels, weights);
    set.add(key("accuracy_baseline"), AccuracyBaseline()).update(labels, weights);
    set.add(key("auc"), Auc(Curve::kRoc)).update(labels, probabilities, weights);
    set.add(key("auc_precision_recall"), Auc(Curve::kPrecisionRecall, careful))
        .update(labels, probabilities, weights);
    internal::add_threshold_metrics(
        set, options().thresholds, [this](std::string_view metric) { return key(metric); }, labels,
        probabilities, weights);
    return set;
  }

  MetricSet detailed_metrics(const at::Tensor& logits, const Batch& batch,
                             const HeadLoss& loss) const override {
    const auto labels = targets_like(batch.labels, logits);
    const auto is_positive = labels.ne(0);
    const auto class_ids = logits.gt(0);
    const auto& weights = loss.weights;
    MetricSet set;
    set.add(key("f1"), F1()).update(labels, class_ids, weights);
    set.add(key("balanced_accuracy"), BalancedAccuracy()).update(is_positive, class_ids, weights);
    set.add(key("calibration_error"), CalibrationError())
        .update(labels, logits.detach().sigmoid(), weights);
    set.add(key("confusion_matrix"), ConfusionMatrix(2, classes_.vocabulary()))
        .update(is_positive, class_ids, weights);
    return set;
  }

  std::vector<ExportOutput> export_outputs() const override {
    auto outputs = internal::classification_outputs(classes_.names());
    outputs.push_back({.name = "regression",
                       .kind = SignatureKind::kRegress,
                       .outputs = {{"outputs", "logistic"}}});
    outputs.push_back(internal::predict_output({"logits", "logistic", "probabilities", "class_ids",
                                                "classes", "all_class_ids", "all_classes"}));
    return outputs;
  }

 protected:
  at::Tensor targets(const Features& labels) const override {
    const auto label = Label::of(labels, name());
    const auto values = classes_.ids_of(label);
    internal::check_range(label, values, 0.0, 1.0);
    return values.is_floating_point() ? values : values.to(torch::kFloat);
  }

  at::Tensor raw_loss(const at::Tensor& logits, const at::Tensor& targets,
                      std::int64_t reduction) const override {
    return loss_.binary(logits, targets, reduction);
  }

 private:
  internal::ClassNames classes_;
  internal::ClassLoss loss_;
};

}  // namespace

HeadPtr binary_class_head(HeadOptions options) {
  internal::reject_option(!options.classes_for_class_based_metrics.empty(), "binary_class_head",
                          "classes_for_class_based_metrics");
  return std::make_shared<const BinaryClassHead>(std::move(options));
}

}  // namespace muster
