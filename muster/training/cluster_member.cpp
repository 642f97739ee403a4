#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/distribution/collective.h"
#include "muster/distribution/parameter_server.h"
#include "muster/engine/strategy.h"
#include "muster/training/cluster_member_internal.h"

namespace muster::internal {
namespace {

StrategyFactory saying_why(StrategyFactory make, std::string why) {
  return [make = std::move(make), why = std::move(why)](const RunConfig& config) {
    auto strategy = make(config);
    log::info("strategy: {} ({})", strategy->describe(), why);
    return strategy;
  };
}

StrategyFactory choose(const RunConfig& config) {
  if (config.train_distribute) {
    return saying_why(config.train_distribute, "RunConfig::train_distribute");
  }
  if (config.task.num_ps_replicas > 0) {
    return saying_why([](const RunConfig& run) { return make_parameter_server(run); },
                      "ps in the cluster");
  }
  return saying_why([](const RunConfig& run) { return make_collective(run); },
                    "no ps in the cluster");
}

// What of the configuration does not go together in this cluster.
void check_updates(const RunConfig& config, const std::string& place) {
  const bool has_ps = config.task.num_ps_replicas > 0;
  if (!config.sync && !has_ps) {
    throw InvalidArgument(
        "RunConfig: sync is false, but it is ps tasks that apply gradients as they come, and {} "
        "without any; add some, or leave sync true",
        place);
  }
  if (!config.sync && (config.ps_log || config.backup_replicas > 0)) {
    throw InvalidArgument(
        "RunConfig: {} is for steps that all tasks make together, but sync is false; leave one of "
        "them out",
        config.ps_log ? "ps_log" : "backup_replicas");
  }
  if (config.backup_replicas > 0 && (!has_ps || config.ps_log)) {
    throw InvalidArgument(
        "RunConfig: backup_replicas is {}, but {}; leave one of them out", config.backup_replicas,
        has_ps ? "ps_log keeps steps of all replicas"
               : fmt::format("it is ps tasks that make steps without some, and {} without any",
                             place));
  }
  if (config.sync && config.max_staleness > 0) {
    throw InvalidArgument(
        "RunConfig: max_staleness is {}, but with sync all tasks have the values of the same step; "
        "leave it 0, or set sync to false",
        config.max_staleness);
  }
}

void check(const EstimatorOptions& options, const RunConfig& config) {
  const TaskEnvironment& environment = config.task;
  const std::string place = fmt::format("{} makes this task {} of a cluster", environment.source,
                                        environment.task.name());
  if (options.learner != nullptr) {
    throw Unimplemented("boosted trees train in one process alone, but {}; unset it", place);
  }
  check_updates(config, place);
  if (environment.num_ps_replicas == 0) return;
  if (options.moving_average) {
    throw Unimplemented(
        "{} with ps tasks, which keep no moving_average so far; train without ps, or without "
        "averages",
        place);
  }
  if (config.train_distribute) config.train_distribute(config)->check(options);
}

}  // namespace

Estimator cluster_member(const Estimator& estimator) {
  RunConfig config = estimator.config();
  check(estimator.options(), config);
  config.train_distribute = choose(config);
  return {estimator.options(), std::move(config)};
}

}  // namespace muster::internal
