#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"

/// Integrated gradients: which part each input has in an output. Needs no libtorch.
namespace muster::executor {

/// Most steps that an explanation may take.
inline constexpr std::int64_t kMostExplainSteps = 4096;

struct ExplainOptions {
  /// The output that is explained; empty: the only one of floating-point numbers, or "logits".
  std::string output{};
  /// Which of its numbers, in row-major order; the largest when it is not given.
  std::optional<std::int64_t> index{};
  /// Places between the baseline and the request at which gradients are computed: of eight each in
  /// as many pieces of the way as there can be.
  std::int64_t steps = 32;
  /// While the attributions do not add up, the piece of the way where they do least is halved, with
  /// steps for both halves, up to so many in all.
  std::int64_t max_steps = 512;
  /// How far the sum of the attributions may be from the difference of the outputs, as a part of
  /// that difference.
  double tolerance = 0.01;

  /// Throws InvalidArgument for numbers out of range.
  void check() const {
    if (steps < 1 || steps > kMostExplainSteps) {
      throw InvalidArgument("steps must be from 1 to {}: {}", kMostExplainSteps, steps);
    }
    if (max_steps < steps || max_steps > kMostExplainSteps) {
      throw InvalidArgument("max_steps must be from steps ({}) to {}: {}", steps, kMostExplainSteps,
                            max_steps);
    }
    if (!(tolerance > 0 && tolerance <= 1)) {
      throw InvalidArgument("tolerance must be above 0 and at most 1: {}", tolerance);
    }
    if (index && *index < 0) throw InvalidArgument("index must not be negative: {}", *index);
  }
};

/// The part of a feature.
struct Attribution {
  /// Name of an input, or of a feature of a tf.Example; "a x b" where a value is made of several.
  std::string feature{};
  /// Sizes of one row of an input of floating-point numbers, which has a number for each of its
  /// elements; empty where one number stands for the whole feature.
  std::vector<std::int64_t> shape{};
  std::vector<double> values{};

  double sum() const { return std::accumulate(values.begin(), values.end(), 0.0); }
};

struct Explanation {
  std::string output{};
  std::int64_t index = 0;
  /// That number of the output for the request, and for the baseline.
  double value = 0;
  double baseline_value = 0;
  /// By the name of the feature.
  std::vector<Attribution> attributions{};
  /// That were made.
  std::int64_t steps = 0;
  /// Distance of the sum of all attributions from value - baseline_value.
  double error = 0;
  /// Whether that is within the tolerance.
  bool is_complete = false;
};

}  // namespace muster::executor
