#pragma once

#include <memory>
#include <set>
#include <string>

#include "muster/estimator/estimator.h"

namespace muster {

/// One call of Estimator::train: restores, steps, saves. Used once.
class TrainLoop {
 public:
  TrainLoop(const EstimatorOptions& options, const RunConfig& config, const InputFn& input_fn,
            const TrainOptions& train_options);
  ~TrainLoop();

  TrainResult run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
