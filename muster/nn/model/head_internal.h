#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/nn/model/head.h"
#include "muster/nn/model/metrics.h"

namespace muster::internal {

/// Common part of heads with one label: finding label and weights, weighting and reducing the
/// loss. A kind of head says what its labels are and what they cost.
class SimpleHead : public Head {
 public:
  /// Throws InvalidArgument for thresholds outside (0, 1).
  SimpleHead(std::int64_t logits_dimension, HeadOptions options);

  std::int64_t logits_dimension() const override { return logits_dimension_; }
  const std::string& name() const override { return options_.name; }
  void check_labels(const Features& labels) const override { targets(labels); }
  HeadLoss loss(const at::Tensor& logits, const Batch& batch, Mode mode) const override;
  Summaries summaries(const HeadLoss& loss, std::int64_t batch_size) const override;

 protected:
  /// The label as the loss wants it. Values are checked where they are on the CPU.
  virtual at::Tensor targets(const Features& labels) const = 0;
  /// The loss of every example [batch, k] for at::Reduction::None; else their sum or mean.
  virtual at::Tensor raw_loss(const at::Tensor& logits, const at::Tensor& targets,
                              std::int64_t reduction) const = 0;
  /// The k above.
  virtual std::int64_t losses_per_example() const { return 1; }

  const HeadOptions& options() const { return options_; }
  /// The targets where and as precise as the logits are.
  at::Tensor targets_like(const Features& labels, const at::Tensor& logits) const;
  /// "accuracy", or "accuracy/name" for a head with a name.
  std::string key(std::string_view metric) const;

 private:
  at::Tensor weights_of(const Features& features, const at::Tensor& unreduced) const;

  std::int64_t logits_dimension_;
  HeadOptions options_;
};

/// Throws InvalidArgument, naming head and option, when the option is set.
void reject_option(bool is_set, std::string_view head, std::string_view option);

/// The signature `predict`, which gives these predictions under their own names.
ExportOutput predict_output(const std::vector<std::string>& keys);

/// `probabilities` as scores of these classes: serving_default and `classification`.
std::vector<ExportOutput> classification_outputs(const std::vector<std::string>& classes);

/// "accuracy/positive_threshold_0.5" and its siblings, at every threshold.
void add_threshold_metrics(MetricSet& metrics, const std::vector<double>& thresholds,
                           const std::function<std::string(std::string_view)>& key,
                           const at::Tensor& labels, const at::Tensor& probabilities,
                           const at::Tensor& weights);

}  // namespace muster::internal
