#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/train/engine/input.h"
#include "muster/train/engine/run_config.h"
#include "muster/train/engine/train_options.h"

namespace muster {

struct LearningRateFinderOptions {
  /// Rates of the first and of the last step; those between rise by equal factors.
  double first = 1e-6;
  double last = 1;
  std::int64_t steps = 100;
  /// Weight of older losses in the smoothed one, in [0, 1).
  double smoothing = 0.9;
  /// The run ends when the smoothed loss is this many times the smallest one.
  double divergence = 4;
};

/// One step of the search.
struct LearningRatePoint {
  double learning_rate = 0;
  double loss = 0;
  /// Moving average of the losses, without the bias of its beginning.
  double smoothed_loss = 0;
};

struct LearningRateFinding {
  std::vector<LearningRatePoint> points{};
  /// The rate at which the smoothed loss falls fastest over the logarithm of the rate. Begin with
  /// it, or with less where a schedule warms up.
  double steepest = 0;
  /// The rate of the smallest smoothed loss: training with it is about to diverge.
  double smallest_loss = 0;
  /// Whether the run ended because the loss grew or was no finite number.
  bool diverged = false;

  /// The losses over the rate as a picture.
  std::string svg() const;
};

/// Trains for some steps with a rate that rises from step to step, from the model's initial values,
/// in a temporary folder: nothing is saved, and `config.model_dir` and the cluster are not used.
/// Optimizers by prefix keep the proportions of their rates at step 0. The same arguments give the
/// same finding. Throws InvalidArgument for options that cannot work and for an input that ends
/// before the third step; else as Estimator::train().
LearningRateFinding find_learning_rate(EstimatorOptions estimator, RunConfig config,
                                       const InputFn& input_fn,
                                       const LearningRateFinderOptions& options = {});

}  // namespace muster
