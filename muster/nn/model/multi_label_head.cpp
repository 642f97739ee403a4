#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/nn/model/class_loss_internal.h"
#include "muster/nn/model/head_internal.h"
#include "muster/nn/model/head_labels_internal.h"

namespace muster {
namespace {

using internal::Label;

class MultiLabelHead : public internal::SimpleHead {
 public:
  MultiLabelHead(std::int64_t n_classes, HeadOptions head_options)
      : SimpleHead(n_classes, std::move(head_options)),
        classes_(n_classes, options().label_vocabulary),
        loss_(options(), n_classes, "multi_label_head") {
    classes_.check_ids(options().classes_for_class_based_metrics);
  }

  Features predictions(const at::Tensor& logits) const override {
    return {{"logits", logits}, {"probabilities", logits.sigmoid()}};
  }

  MetricSet metrics(const at::Tensor& logits, const Batch& batch,
                    const HeadLoss& loss) const override {
    const auto labels = targets_like(batch.labels, logits);
    const auto probabilities = logits.detach().sigmoid();
    MetricSet set;
    set.add(key("average_loss"), Mean()).update(loss.unreduced, loss.weights);
    add_auc(set, "", labels, probabilities, loss.weights);
    internal::add_threshold_metrics(
        set, options().thresholds, [this](std::string_view metric) { return key(metric); }, labels,
        probabilities, loss.weights);
    for (const auto id : options().classes_for_class_based_metrics) {
      const auto suffix = classes_.metric_suffix(id);
      const auto mine = probabilities.select(1, id);
      set.add(key("probability_mean" + suffix), Mean()).update(mine, loss.weights);
      add_auc(set, suffix, labels.select(1, id), mine, loss.weights);
    }
    return set;
  }

  MetricSet detailed_metrics(const at::Tensor& logits, const Batch& batch,
                             const HeadLoss& loss) const override {
    const auto labels = targets_like(batch.labels, logits);
    const auto probabilities = logits.detach().sigmoid();
    const std::int64_t k = std::min<std::int64_t>(classes_.count(), 5);
    MetricSet set;
    set.add(key("f1_micro"), F1()).update(labels, probabilities.gt(0.5), loss.weights);
    set.add(key("calibration_error"), CalibrationError())
        .update(labels, probabilities, loss.weights);
    for (const std::int64_t number : {std::int64_t{1}, k}) {
      set.add(key(fmt::format("precision_at_{}", number)), PrecisionAtK(number))
          .update(labels, logits, loss.weights);
      set.add(key(fmt::format("recall_at_{}", number)), RecallAtK(number))
          .update(labels, logits, loss.weights);
    }
    return set;
  }

  std::vector<ExportOutput> export_outputs() const override {
    auto outputs = internal::classification_outputs(classes_.names());
    outputs.push_back(internal::predict_output({"logits", "probabilities"}));
    return outputs;
  }

 protected:
  at::Tensor targets(const Features& labels) const override {
    const auto label = Label::of(labels, name());
    if (const auto* ids = std::get_if<RaggedColumn>(&label.value)) return from_ids(label, *ids);
    if (const auto* words = std::get_if<StringColumn>(&label.value)) {
      return from_words(label, *words);
    }
    const auto hot = internal::dense_label(label, classes_.count());
    internal::check_range(label, hot, 0.0, 1.0);
    return hot.to(torch::kFloat);
  }

  at::Tensor raw_loss(const at::Tensor& logits, const at::Tensor& targets,
                      std::int64_t reduction) const override {
    return loss_.multi_label(logits, targets, reduction);
  }

 private:
  void add_auc(MetricSet& set, const std::string& suffix, const at::Tensor& labels,
               const at::Tensor& probabilities, const at::Tensor& weights) const {
    const bool careful = options().auc_summation == AucSummation::kCareful;
    set.add(key("auc" + suffix), Auc(Curve::kRoc)).update(labels, probabilities, weights);
    set.add(key("auc_precision_recall" + suffix), Auc(Curve::kPrecisionRecall, careful))
        .update(labels, probabilities, weights);
  }

  at::Tensor from_ids(const Label& label, const RaggedColumn& column) const {
    if (classes_.has_vocabulary() || column.values.scalar_type() != torch::kLong ||
        column.values.dim() != 1) {
      throw InvalidArgument("label \"{}\" is {}, but the head wants {}", label.name,
                            describe(label.value),
                            classes_.has_vocabulary() ? "words of its label_vocabulary"
                                                      : "ragged int64 ids or a multi-hot tensor");
    }
    const auto values = column.values.to(at::kCPU).contiguous();
    const auto splits = column.row_splits.contiguous();
    const auto* const ids = values.data_ptr<std::int64_t>();
    const auto* const split = splits.data_ptr<std::int64_t>();
    auto hot = torch::zeros({column.rows(), classes_.count()});
    auto* const out = hot.data_ptr<float>();
    for (std::int64_t row = 0; row < column.rows(); ++row) {
      for (auto i = split[row]; i < split[row + 1]; ++i) {
        if (ids[i] < 0 || ids[i] >= classes_.count()) {
          throw InvalidArgument(
              "label \"{}\" has the id {} in row {} of the batch, but must be in "
              "[0, {}]",
              label.name, ids[i], row, classes_.count() - 1);
        }
        out[row * classes_.count() + ids[i]] = 1.0F;
      }
    }
    return hot;
  }

  at::Tensor from_words(const Label& label, const StringColumn& column) const {
    auto hot = torch::zeros({column.rows(), classes_.count()});
    auto* const out = hot.data_ptr<float>();
    for (std::int64_t row = 0; row < column.rows(); ++row) {
      for (const auto word : column.row(row)) {
        out[row * classes_.count() + classes_.id_of(label, word, row)] = 1.0F;
      }
    }
    return hot;
  }

  internal::ClassNames classes_;
  internal::ClassLoss loss_;
};

}  // namespace

HeadPtr multi_label_head(std::int64_t n_classes, HeadOptions options) {
  if (n_classes < 2) {
    throw InvalidArgument("multi_label_head needs at least 2 classes: {}", n_classes);
  }
  return std::make_shared<const MultiLabelHead>(n_classes, std::move(options));
}

}  // namespace muster
