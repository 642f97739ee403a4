#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/features/batch.h"
#include "muster/nn/model/estimator_spec.h"

namespace muster {

/// How the losses of a batch become one number.
enum class Reduction {
  kSum,
  /// The sum over their count, whatever the weights.
  kSumOverBatchSize,
};

/// The loss of one batch and what it was made of.
struct HeadLoss {
  /// The scalar to minimise.
  at::Tensor loss{};
  /// Per example [batch, k], unweighted, without gradients; undefined in kTrain.
  at::Tensor unreduced{};
  /// Weights that go with `unreduced`, [batch, 1] or [batch, k]; undefined when all are 1.
  at::Tensor weights{};
  /// Losses of the heads of a multi-head.
  std::vector<HeadLoss> parts{};
};

/// Head of a model on its logits: loss, predictions, metrics and signatures of one kind of task.
/// Immutable, so one head serves any number of replicas and threads.
class Head {
 public:
  virtual ~Head() = default;

  /// The last dimension that the model's logits must have.
  virtual std::int64_t logits_dimension() const = 0;
  /// Empty for the only head; else metric and summary keys end with "/name".
  virtual const std::string& name() const = 0;
  /// Throws what loss() would throw for these labels. The loop calls it before labels go to another
  /// device, where loss() does not look at their values.
  virtual void check_labels(const Features& labels) const = 0;
  /// Throws InvalidArgument or NotFound, with what was found, what was wanted and what to do, for
  /// missing labels or weights, wrong shapes, and values out of range or not in the vocabulary.
  virtual HeadLoss loss(const at::Tensor& logits, const Batch& batch, Mode mode) const = 0;
  /// All keys of this kind of head.
  virtual Features predictions(const at::Tensor& logits) const = 0;
  /// The metrics of this batch alone, except `loss`.
  virtual MetricSet metrics(const at::Tensor& logits, const Batch& batch,
                            const HeadLoss& loss) const = 0;
  /// Metrics of this batch that metrics() leaves out, for with_detailed_metrics(); none by default.
  virtual MetricSet detailed_metrics(const at::Tensor& logits, const Batch& batch,
                                     const HeadLoss& loss) const;
  virtual std::vector<ExportOutput> export_outputs() const = 0;
  /// Summaries to show beside the loss itself.
  virtual Summaries summaries(const HeadLoss& loss, std::int64_t batch_size) const = 0;

  /// All of the above that `mode` asks for. `regularization_loss` may be undefined.
  EstimatorSpec spec(const Batch& batch, Mode mode, const at::Tensor& logits,
                     const at::Tensor& regularization_loss = {}) const;
};

using HeadPtr = std::shared_ptr<const Head>;

enum class AucSummation {
  /// As tf.metrics.auc by default; overestimates precision-recall curves slightly.
  kTrapezoidal,
  /// Interpolates precision as Davis and Goadrich showed. ROC curves stay trapezoidal.
  kCareful,
};

/// A head throws InvalidArgument for an option it has no use for.
struct HeadOptions {
  std::string name{};
  /// The feature with the examples' weights, [batch] or [batch, 1]; regression also [batch, d].
  std::string weight_column{};
  Reduction loss_reduction = Reduction::kSumOverBatchSize;
  /// Classification: the words that string labels are made of, in the order of their ids.
  std::vector<std::string> label_vocabulary{};
  /// Binary and multi-label: accuracy, precision and recall at these too; strictly in (0, 1).
  std::vector<double> thresholds{};
  /// Multi-class and multi-label: classes with metrics of their own.
  std::vector<std::int64_t> classes_for_class_based_metrics{};
  AucSummation auc_summation = AucSummation::kTrapezoidal;
  /// Classification: the part of each label that is spread over all classes, in [0, 1).
  double label_smoothing = 0.0;
  /// Classification: the loss of an example is multiplied by (1 - p)^focal_gamma, where p is the
  /// probability of its label, so that what is learnt already counts less; 0 leaves it as it is.
  double focal_gamma = 0.0;
  /// Classification: factors of the losses of examples by their class, one per class; multi-label:
  /// of each class's loss. Metrics other than average_loss do not see them.
  std::vector<double> class_weights{};
};

/// Two classes, one logit. Labels in [0, 1], or words of a vocabulary of two.
HeadPtr binary_class_head(HeadOptions options = {});
/// n > 2 exclusive classes, n logits. Labels are ids below n, or words.
HeadPtr multi_class_head(std::int64_t n_classes, HeadOptions options = {});
/// n >= 2 classes of which any number holds, n logits. Labels are multi-hot [batch, n], ragged ids,
/// or ragged words.
HeadPtr multi_label_head(std::int64_t n_classes, HeadOptions options = {});
/// `label_dimension` real numbers, squared error.
HeadPtr regression_head(std::int64_t label_dimension = 1, HeadOptions options = {});
/// Counts; the logits are the logarithms of the rates.
HeadPtr poisson_head(std::int64_t label_dimension = 1, HeadOptions options = {});
/// A probability as the label, sigmoid cross entropy.
HeadPtr logistic_regression_head(HeadOptions options = {});
/// Several named heads over one tensor of logits, which they take their parts of in order. The loss
/// is the weighted sum; without weights all weigh 1. Labels have the heads' names. Throws
/// InvalidArgument for no heads, an unnamed one, a name that occurs twice, or another number of
/// weights than of heads.
HeadPtr multi_head(std::vector<HeadPtr> heads, std::vector<double> head_weights = {});

}  // namespace muster
