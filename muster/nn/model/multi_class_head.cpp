#include <torch/types.h>

#include <numeric>

#include "muster/base/error.h"
#include "muster/nn/model/class_loss_internal.h"
#include "muster/nn/model/head_internal.h"
#include "muster/nn/model/head_labels_internal.h"

namespace muster {
namespace {

using internal::Label;

class MultiClassHead : public internal::SimpleHead {
 public:
  MultiClassHead(std::int64_t n_classes, HeadOptions options)
      : SimpleHead(n_classes, std::move(options)),
        classes_(n_classes, this->options().label_vocabulary),
        loss_(this->options(), n_classes, "multi_class_head") {
    classes_.check_ids(this->options().classes_for_class_based_metrics);
  }

  Features predictions(const at::Tensor& logits) const override {
    const auto rows = logits.size(0);
    const auto class_ids = logits.argmax(1, /*keepdim=*/true);
    return {{"logits", logits},
            {"probabilities", logits.softmax(1)},
            {"class_ids", class_ids},
            {"classes", classes_.names_of(class_ids)},
            {"all_class_ids",
             torch::arange(classes_.count(), torch::kInt).expand({rows, classes_.count()})},
            {"all_classes", classes_.all_names(rows)}};
  }

  MetricSet metrics(const at::Tensor& logits, const Batch& batch,
                    const HeadLoss& loss) const override {
    MetricSet set;
    set.add(key("average_loss"), Mean()).update(loss.unreduced, loss.weights);
    set.add(key("accuracy"), Accuracy())
        .update(targets_like(batch.labels, logits), logits.argmax(1), loss.weights);
    const auto& chosen = options().classes_for_class_based_metrics;
    if (!chosen.empty()) add_scores_of(chosen, confusion_of(logits, batch, loss), set);
    return set;
  }

  MetricSet detailed_metrics(const at::Tensor& logits, const Batch& batch,
                             const HeadLoss& loss) const override {
    const auto labels = targets_like(batch.labels, logits);
    const auto class_ids = logits.argmax(1);
    const auto& weights = loss.weights;
    MetricSet set;
    set.add(key("balanced_accuracy"), BalancedAccuracy(classes_.count()))
        .update(labels, class_ids, weights);
    const auto add_average = [&](const char* name, ClassScore score, Average average) {
      set.add(key(name), ClassAverage(score, average, classes_.count()))
          .update(labels, class_ids, weights);
    };
    add_average("precision_macro", ClassScore::kPrecision, Average::kMacro);
    add_average("recall_macro", ClassScore::kRecall, Average::kMacro);
    add_average("f1_macro", ClassScore::kF1, Average::kMacro);
    add_average("f1_weighted", ClassScore::kF1, Average::kWeighted);
    // The plain cross entropy counts, whatever the options of the loss are.
    set.add(key("perplexity"), Perplexity())
        .update(at::cross_entropy_loss(logits.detach(), labels, {}, at::Reduction::None), weights);
    const auto confidence = std::get<0>(logits.detach().softmax(1).max(1));
    set.add(key("calibration_error"), CalibrationError())
        .update(class_ids.eq(labels), confidence, weights);
    if (classes_.count() > 5) {
      set.add(key("top_5_accuracy"), TopK(5)).update(labels, logits, weights);
    }
    const auto confusion = confusion_of(logits, batch, loss);
    if (options().classes_for_class_based_metrics.empty() &&
        classes_.count() <= kMostListedClasses) {
      std::vector<std::int64_t> all(static_cast<std::size_t>(classes_.count()));
      std::iota(all.begin(), all.end(), 0);
      add_scores_of(all, confusion, set);
    }
    if (classes_.count() <= kMostListedClasses) set.add(key("confusion_matrix"), confusion);
    return set;
  }

  std::vector<ExportOutput> export_outputs() const override {
    auto outputs = internal::classification_outputs(classes_.names());
    outputs.push_back(internal::predict_output(
        {"logits", "probabilities", "class_ids", "classes", "all_class_ids", "all_classes"}));
    return outputs;
  }

 protected:
  at::Tensor targets(const Features& labels) const override {
    const auto label = Label::of(labels, name());
    const auto ids = classes_.ids_of(label);
    if (ids.is_floating_point()) {
      throw InvalidArgument(
          "label \"{}\" is {}, but class ids are integers: convert it with .to(torch::kLong) in "
          "the "
          "input function",
          label.name, describe(label.value));
    }
    internal::check_range(label, ids, 0.0, static_cast<double>(classes_.count() - 1));
    return ids.to(torch::kLong).squeeze(1);
  }

  at::Tensor raw_loss(const at::Tensor& logits, const at::Tensor& targets,
                      std::int64_t reduction) const override {
    return loss_.multi_class(logits, targets, reduction);
  }

 private:
  // A table or a list of more is not read.
  static constexpr std::int64_t kMostListedClasses = 100;

  ConfusionMatrix confusion_of(const at::Tensor& logits, const Batch& batch,
                               const HeadLoss& loss) const {
    ConfusionMatrix confusion(classes_.count(), classes_.vocabulary());
    confusion.update(targets_like(batch.labels, logits), logits.argmax(1), loss.weights);
    return confusion;
  }

  void add_scores_of(const std::vector<std::int64_t>& ids, const ConfusionMatrix& confusion,
                     MetricSet& set) const {
    auto counts = confusion.by_class();
    for (const std::int64_t id : ids) {
      const auto suffix = classes_.metric_suffix(id);
      set.add(key("precision" + suffix), Precision()).add(counts[id]);
      set.add(key("recall" + suffix), Recall()).add(counts[id]);
      set.add(key("f1" + suffix), F1()).add(counts[id]);
    }
  }

  internal::ClassNames classes_;
  internal::ClassLoss loss_;
};

}  // namespace

HeadPtr multi_class_head(std::int64_t n_classes, HeadOptions options) {
  if (n_classes <= 2) {
    throw InvalidArgument(
        "multi_class_head needs more than 2 classes: {}. For two, use binary_class_head",
        n_classes);
  }
  internal::reject_option(!options.thresholds.empty(), "multi_class_head", "thresholds");
  return std::make_shared<const MultiClassHead>(n_classes, std::move(options));
}

}  // namespace muster
