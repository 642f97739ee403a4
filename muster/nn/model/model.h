#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>

#include "muster/data/features/batch.h"
#include "muster/nn/model/estimator_spec.h"
#include "muster/nn/model/mode.h"

namespace muster {

class Head;

/// A libtorch module that makes logits of features. train() and eval() work as in libtorch; the
/// loop calls them. One replica calls one model at a time.
class Model : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;

  /// The logits [batch, head's logits_dimension()].
  virtual torch::Tensor forward(const Features& features) = 0;

  /// Term of the loss for the sake of the weights alone; undefined for none.
  virtual torch::Tensor regularization_loss() { return {}; }

  /// Whether forward() may draw from libtorch's generator, as torch::nn::Dropout does. Replicas of
  /// such a model run their forwards in turn, each after the generator was seeded for it; a model
  /// that draws from muster's own random numbers only says false, and its replicas run side by
  /// side.
  virtual bool draws_from_libtorch() const { return true; }

  /// The whole step on one batch: what model_fn was. This one calls forward() and lets the head do
  /// the rest; override it for losses, metrics, outputs or summaries of your own. `head` is null
  /// where the estimator has none, which this one answers with FailedPrecondition.
  virtual EstimatorSpec call(const Batch& batch, Mode mode, const Head* head);
};

/// A model out of a function, for small ones and tests. `module` holds the variables and is
/// registered as `name`; the variables' names then begin with it.
std::shared_ptr<Model> model_from(std::shared_ptr<torch::nn::Module> module,
                                  std::function<torch::Tensor(const Features&)> forward,
                                  const std::string& name = "model");

}  // namespace muster
