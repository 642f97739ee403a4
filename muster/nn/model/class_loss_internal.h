#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/nn/model/head.h"

namespace muster::internal {

/// Cross entropy of a classification head with its options: label smoothing, focal loss and class
/// weights. Without them it is libtorch's own. Any thread may ask it.
class ClassLoss {
 public:
  /// Throws InvalidArgument, naming head and option, for values out of range and class_weights that
  /// are not one per class.
  ClassLoss(const HeadOptions& options, std::int64_t classes, std::string_view head);

  /// Loss of one logit [batch, 1] and labels in [0, 1].
  at::Tensor binary(const at::Tensor& logits, const at::Tensor& targets,
                    std::int64_t reduction) const;
  /// Loss of logits [batch, classes] and ids [batch]; [batch, 1] for at::Reduction::None.
  at::Tensor multi_class(const at::Tensor& logits, const at::Tensor& targets,
                         std::int64_t reduction) const;
  /// Loss of logits and multi-hot labels [batch, classes], averaged over the classes: [batch, 1]
  /// for at::Reduction::None.
  at::Tensor multi_label(const at::Tensor& logits, const at::Tensor& targets,
                         std::int64_t reduction) const;

 private:
  bool is_plain() const { return smoothing_ == 0 && gamma_ == 0 && weights_.empty(); }
  at::Tensor of_each(const at::Tensor& logits, const at::Tensor& targets) const;
  at::Tensor focused(const at::Tensor& loss, const at::Tensor& wrong) const;
  at::Tensor weights_on(const at::Tensor& like) const;

  double smoothing_;
  double gamma_;
  std::vector<double> weights_;
  // Made once per device and type: a captured step cannot copy them from the host.
  mutable std::mutex mutex_;
  mutable std::vector<at::Tensor> made_weights_;
};

}  // namespace muster::internal
