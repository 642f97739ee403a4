#pragma once

#include <string_view>

namespace muster::executor {

/// Meaning of an operation for a gradient.
enum class GradientRole {
  /// Nothing is known: it must not stand between an input of numbers and the output.
  kUnknown,
  /// libtorch computes its gradient, almost everywhere.
  kSmooth,
  /// Its numbers do not change, or jump: what comes out of it is a beginning of the path.
  kStep,
  /// Compares numbers element by element: computed again at each place of the path.
  kSwitch,
  /// Reads the sizes of its inputs, not their values.
  kStructure,
};

GradientRole gradient_role(std::string_view op);

/// Whether it looks rows up, adds them together or scales them, as an embedding does. A path begins
/// behind such operations, while all they read is of one feature: at what the feature stands for.
bool pools_rows(std::string_view op);

/// Whether the gradient flows through its first input alone: a filter must not depend on the
/// request.
bool needs_fixed_filter(std::string_view op);

}  // namespace muster::executor
