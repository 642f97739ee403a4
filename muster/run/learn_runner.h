#pragma once

#include <functional>
#include <optional>
#include <string>

#include "muster/run/experiment.h"

/// Runs an experiment as whatever task this process is.
namespace muster::learn_runner {

/// Makes the experiment of a run: its estimator must be made with this configuration.
using ExperimentFn = std::function<Experiment(const RunConfig& config)>;

struct Options {
  /// Not set: RunConfig::from_env(), with output_dir as its model_dir.
  std::optional<RunConfig> run_config{};
  /// The model folder; at most one of it and run_config's is set.
  Path output_dir{};
  /// One of Experiment::schedules(); empty: by default_schedule().
  std::string schedule{};
};

/// Throws InvalidArgument: no model folder, or two; an invalid schedule; an experiment whose
/// estimator has another model folder or task than the configuration says; and what the schedule
/// throws.
TrainAndEvaluateResult run(const ExperimentFn& experiment_fn, const Options& options);

}  // namespace muster::learn_runner
