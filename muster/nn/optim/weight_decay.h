#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "muster/nn/optim/variables.h"

namespace muster {

/// L2 regularisation as a term of the loss: factor * sum(w^2) / 2. (The decoupled kind is an option
/// of sgd, momentum and adamw.)
struct WeightDecay {
  double factor = 0.0;
  /// Which variables it is for, by name; by default every trainable one, batch-norm scales and
  /// biases included.
  std::function<bool(std::string_view)> filter{};
};

/// Adds the term's gradient, factor * w, once: to the mean of all replicas. Of a sparse table only
/// the touched rows take part, since the others may not change. Returns the term's value, for the
/// reported loss. Throws InvalidArgument on a negative factor.
double add_weight_decay(const Variables& variables, Gradients& gradients, const WeightDecay& decay);

/// The same for these parts alone, of gradients that have no rows of others. The term's value is
/// not computed, which would take a pass over the variables.
void add_weight_decay(const Variables& variables, Gradients& gradients, const WeightDecay& decay,
                      std::span<const VariablePart> parts);

/// The term's value over all variables, tables included: evaluation's loss has it too.
double weight_decay_loss(const Variables& variables, const WeightDecay& decay);

/// Which elements of Variables::flat() it is for: a byte for each 16 of them, which is where
/// variables begin.
at::Tensor decay_mask(const Variables& variables, const WeightDecay& decay);

}  // namespace muster
