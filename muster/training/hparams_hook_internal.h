#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/estimator/estimator.h"
#include "muster/estimator/specs.h"

namespace muster::internal {

/// Fills TensorBoard's page "hparams": when training begins, what the run is trained with and which
/// metrics it will have; at its end, that it ended in order. Only on the chief.
class HParamsHook : public Hook {
 public:
  /// All must outlive it. `metrics` are the names of what evaluations of this process find.
  HParamsHook(const Estimator& estimator, const TrainSpec& train, const EvalSpec& eval,
              std::vector<std::string> metrics)
      : estimator_(estimator), train_(train), eval_(eval), metrics_(std::move(metrics)) {}

  void begin(Session& session) override;
  void end(Session& session) override;

 private:
  const Estimator& estimator_;
  const TrainSpec& train_;
  const EvalSpec& eval_;
  const std::vector<std::string> metrics_;
};

}  // namespace muster::internal
