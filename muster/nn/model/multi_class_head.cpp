#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/nn/model/head_internal.h"
#include "muster/nn/model/head_labels_internal.h"

namespace muster {
namespace {

using internal::Label;

class MultiClassHead : public internal::SimpleHead {
 public:
  MultiClassHead(std::int64_t n_classes, HeadOptions options)
      : SimpleHead(n_classes, std::move(options)),
        classes_(n_classes, this->options().label_vocabulary) {}

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
    const auto loss = at::cross_entropy_loss(logits, targets, {}, reduction);
    return reduction == at::Reduction::None ? loss.unsqueeze(1) : loss;
  }

 private:
  internal::ClassNames classes_;
};

}  // namespace

HeadPtr multi_class_head(std::int64_t n_classes, HeadOptions options) {
  if (n_classes <= 2) {
    throw InvalidArgument(
        "multi_class_head needs more than 2 classes: {}. For two, use binary_class_head",
        n_classes);
  }
  internal::reject_option(!options.thresholds.empty(), "multi_class_head", "thresholds");
  internal::reject_option(!options.classes_for_class_based_metrics.empty(), "multi_class_head",
                          "classes_for_class_based_metrics");
  return std::make_shared<const MultiClassHead>(n_classes, std::move(options));
}

}  // namespace muster
