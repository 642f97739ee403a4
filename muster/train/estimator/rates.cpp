#include <utility>
#include <variant>

#include "muster/train/estimator/rates_internal.h"

namespace muster::internal {
namespace {

Optimizer with_rate(const Optimizer& optimizer, LearningRate rate) {
  return std::visit(
      [&](auto options) {
        options.learning_rate = std::move(rate);
        return Optimizer(std::move(options));
      },
      optimizer.options());
}

}  // namespace

OptimizersByPrefix with_rates(const OptimizersByPrefix& optimizers,
                              const std::function<LearningRate(const LearningRate&)>& change) {
  OptimizersByPrefix changed;
  for (OptimizerFor entry : optimizers) {
    entry.optimizer = with_rate(entry.optimizer, change(entry.optimizer.learning_rate()));
    changed.add(std::move(entry));
  }
  return changed;
}

}  // namespace muster::internal
