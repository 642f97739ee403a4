#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

namespace muster {

/// A part of the training state under the name it has in a checkpoint: a variable, a slot, a
/// scalar. The tensor is the state itself, not a copy.
struct NamedTensor {
  std::string name{};
  at::Tensor tensor{};
};

/// Copies into every target the source of the same name; other sources are left alone. Nothing is
/// changed unless all fit. Throws NotFound naming what has no source, InvalidArgument naming a
/// tensor whose shape or type differs, with both.
void restore(std::span<const NamedTensor> targets, std::span<const NamedTensor> sources);

}  // namespace muster
