#include "muster/run/learn_runner.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster::learn_runner {
namespace {

RunConfig config_of(const Options& options) {
  RunConfig config = options.run_config ? *options.run_config : RunConfig::from_env();
  if (!options.output_dir.empty()) {
    if (options.run_config && !config.model_dir.empty()) {
      throw InvalidArgument(
          "learn_runner: output_dir is {}, and run_config's model_dir is {}; set one of them",
          options.output_dir.string(), config.model_dir.string());
    }
    config.model_dir = options.output_dir;
  }
  if (config.model_dir.empty()) {
    throw InvalidArgument(
        "learn_runner: no model folder is named: set output_dir, or model_dir in run_config or "
        "TF_CONFIG");
  }
  return config;
}

// One that was made with another configuration would train elsewhere, or as another task.
void check(const Experiment& experiment, const RunConfig& config) {
  const RunConfig& own = experiment.estimator().config();
  if (own.model_dir != config.model_dir) {
    throw InvalidArgument(
        "learn_runner: the experiment's estimator writes to {}, but the run is in {}: make it with "
        "the RunConfig that experiment_fn is given",
        own.model_dir.string(), config.model_dir.string());
  }
  if (own.cluster.task.task != config.cluster.task.task ||
      own.cluster.task.cluster != config.cluster.task.cluster) {
    throw InvalidArgument(
        "learn_runner: the experiment's estimator is {} of {}, but this process is {} of {}: make "
        "it with the RunConfig that experiment_fn is given",
        own.cluster.task.task.name(), own.cluster.task.cluster.to_string(),
        config.cluster.task.task.name(), config.cluster.task.cluster.to_string());
  }
}

void check_schedule(const std::string& schedule) {
  const auto known = Experiment::schedules();
  if (std::find(known.begin(), known.end(), schedule) != known.end()) return;
  throw InvalidArgument("learn_runner: there is no schedule \"{}\": take one of {}", schedule,
                        fmt::join(known, ", "));
}

}  // namespace

TrainAndEvaluateResult run(const ExperimentFn& experiment_fn, const Options& options) {
  if (!experiment_fn) throw InvalidArgument("learn_runner: experiment_fn is not set");
  const RunConfig config = config_of(options);
  const std::string schedule =
      options.schedule.empty() ? default_schedule(config.cluster.task) : options.schedule;
  check_schedule(schedule);
  Experiment experiment = experiment_fn(config);
  check(experiment, config);
  log::info("schedule: {} ({})", schedule,
            options.schedule.empty() ? fmt::format("of {}", config.cluster.task.task.name())
                                     : std::string("as asked for"));
  return experiment.run(schedule);
}

}  // namespace muster::learn_runner
