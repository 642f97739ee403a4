#pragma once

#include "muster/nn/model/model.h"

namespace muster::zoo {

/// A model whose parameters and buffers have the names and shapes of a published one, so that
/// load_weights() and load_published_weights() fill it by name. It is a Model for an Estimator.
class Network : public Model {
 public:
  using Model::Model;

  /// Output for the first input alone: normalised images [batch, channels, height, width], or ids
  /// [batch, length]. Throws InvalidArgument for another shape.
  virtual torch::Tensor logits(const torch::Tensor& input) = 0;

  /// Dropout is muster's, which draws from the thread's RandomScope.
  bool draws_from_libtorch() const override { return false; }
};

}  // namespace muster::zoo
