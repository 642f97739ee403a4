#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "muster/data/summary/hparams.h"
#include "muster/train/estimator/estimator.h"

namespace muster {

/// Fills TensorBoard's page "hparams": when training begins, what the run is trained with (learning
/// rates, seed, decay, clipping, RunConfig::hparams) and which metrics it will have; at its end,
/// that it ended in order. Only on the chief. train_and_evaluate() has one; give it to
/// Estimator::train() yourself.
class HParamsHook : public Hook {
 public:
  /// The estimator must outlive it. `metrics` are columns beside that of the loss.
  explicit HParamsHook(const Estimator& estimator,
                       std::optional<std::int64_t> max_steps = std::nullopt,
                       std::vector<HParamMetric> metrics = {})
      : estimator_(estimator), max_steps_(max_steps), metrics_(std::move(metrics)) {}

  void begin(Session& session) override;
  void end(Session& session) override;

 private:
  const Estimator& estimator_;
  const std::optional<std::int64_t> max_steps_;
  const std::vector<HParamMetric> metrics_;
};

}  // namespace muster
