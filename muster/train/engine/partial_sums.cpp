#include "muster/train/engine/partial_sums.h"

#include <torch/types.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/nn/model/row_gradient.h"

namespace muster {

void add_gradients(Gradients& into, const Gradients& from) {
  const torch::NoGradGuard no_grad;
  into.flat.add_(from.flat);
  for (std::size_t i = 0; i < into.rows.size(); ++i) {
    into.rows[i] = add_rows(into.rows[i], from.rows[i]);
  }
}

Gradients take_mean(PartialSums& total) {
  if (total.sums.size() != 1 || !total.sums.begin()->second) {
    throw Internal(
        "the mean of a step was asked for with {} of its parts, {} replicas of them "
        "with a batch",
        total.sums.size(), total.present);
  }
  Gradients mean = std::move(*total.sums.begin()->second);
  total.sums.clear();
  if (total.present == 1) return mean;
  const torch::NoGradGuard no_grad;
  // A tensor, since CUDA takes a number of the host as a product with its reciprocal, which
  // rounds otherwise than the division that a CPU does.
  const at::Tensor present = at::full({}, static_cast<double>(total.present), mean.flat.options());
  mean.flat.div_(present);
  for (auto& rows : mean.rows) {
    if (!rows.empty()) rows.values = rows.values / present;
  }
  return mean;
}

}  // namespace muster
