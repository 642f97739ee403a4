#pragma once

#include "muster/train/engine/input.h"

namespace muster {

class BundleReader;
class Model;
struct EstimatorOptions;
struct RunConfig;
struct TrainOptions;
struct TrainResult;

/// How a model comes by its values where gradients and optimizers are not the way. The rest of an
/// estimator stays as it is: what the learner saved, load() gives to the model that evaluates and
/// predicts. Immutable.
class Learner {
 public:
  virtual ~Learner() = default;

  /// Trains as Estimator::train promises.
  virtual TrainResult train(const EstimatorOptions& options, const RunConfig& config,
                            const InputFn& input_fn, const TrainOptions& train_options) const = 0;
  /// Gives a model that the options' factory made the values of a checkpoint. Throws NotFound,
  /// DataLoss, or InvalidArgument for one that does not fit.
  virtual void load(const BundleReader& bundle, Model& model) const = 0;
};

}  // namespace muster
