#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/train/estimator/estimator.h"

namespace muster::bench {

/// A run in a new folder that writes and logs nothing.
RunConfig silent_config(int threads);

/// Makes what is measured, with this configuration.
using MakeEstimator = std::function<Estimator(const RunConfig&)>;

/// Steps/s of one silent run; a quick one has two steps.
double steps_per_second_of_run(const MakeEstimator& make, const InputFn& input, int threads,
                               std::int64_t steps);
/// The median of three.
double steps_per_second(const MakeEstimator& make, const InputFn& input, int threads,
                        std::int64_t steps);
/// The better of one thread and all processors.
double best_steps_per_second(const MakeEstimator& make, const InputFn& input, std::int64_t steps);

/// The best result of a program under benchmarks/anchors/.
struct Anchor {
  double examples_per_second = 0;
  std::string setting{};
};

/// Runs a program under benchmarks/anchors/, given with its arguments; nothing, with a line on
/// standard error, if this machine has no PyTorch for Python; nothing also in a quick run.
/// MUSTER_PYTHON names another Python than /usr/bin/python3.
std::optional<Anchor> run_anchor(const std::string& program);
/// Its examples/s alone.
std::optional<double> anchor_examples_per_second(const std::string& program);

}  // namespace muster::bench
