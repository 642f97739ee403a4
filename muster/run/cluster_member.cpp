#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/distribution/collective.h"
#include "muster/distribution/parameter_server.h"
#include "muster/run/cluster_member_internal.h"
#include "muster/train/engine/strategy.h"

namespace muster::internal {
namespace {

StrategyChoice saying_why(StrategyFactory make, std::string why) {
  return [make = std::move(make), why = std::move(why)](const RunConfig& config) {
    auto strategy = make(config);
    log::info("strategy: {} ({})", strategy->describe(), why);
    return strategy;
  };
}

StrategyChoice choose(const RunConfig& config) {
  const StrategyChoice& choice = config.cluster.train_distribute;
  const bool has_ps = config.cluster.task.num_ps_replicas > 0;
  const bool is_asked = choice.name() != "auto";
  const std::string why = is_asked ? "RunConfig::cluster.train_distribute"
                          : has_ps ? "ps in the cluster"
                                   : "no ps in the cluster";
  if (choice) return saying_why(choice, why);
  if (choice.name() == "ps" || (!is_asked && has_ps)) {
    return saying_why([](const RunConfig& run) { return make_parameter_server(run); }, why);
  }
  return saying_why([](const RunConfig& run) { return make_collective(run); }, why);
}

// A strategy that was asked for by name, and this cluster has no place for.
void check_strategy(const RunConfig& config, const std::string& place) {
  const std::string& name = config.cluster.train_distribute.name();
  const bool has_ps = config.cluster.task.num_ps_replicas > 0;
  if ((name == "ps" && !has_ps) || (name == "collective" && has_ps)) {
    throw InvalidArgument("RunConfig: train_distribute is {}, but {} {} ps tasks; {}", name, place,
                          has_ps ? "with" : "without",
                          has_ps ? "leave out the ps, or take \"ps\" or \"auto\""
                                 : "add some, or take \"collective\" or \"auto\"");
  }
}

// Refuses settings that cannot be combined in this cluster.
void check_updates(const RunConfig& config, const std::string& place) {
  const bool has_ps = config.cluster.task.num_ps_replicas > 0;
  if (!config.cluster.sync && !has_ps) {
    throw InvalidArgument(
        "RunConfig: sync is false, but it is ps tasks that apply gradients as they come, and {} "
        "without any; add some, or leave sync true",
        place);
  }
  if (!config.cluster.sync && (config.cluster.ps_log || config.cluster.backup_replicas > 0)) {
    throw InvalidArgument(
        "RunConfig: {} is for steps that all tasks make together, but sync is false; leave one of "
        "them out",
        config.cluster.ps_log ? "ps_log" : "backup_replicas");
  }
  if (config.cluster.backup_replicas > 0 && (!has_ps || config.cluster.ps_log)) {
    throw InvalidArgument(
        "RunConfig: backup_replicas is {}, but {}; leave one of them out",
        config.cluster.backup_replicas,
        has_ps ? "ps_log keeps steps of all replicas"
               : fmt::format("it is ps tasks that make steps without some, and {} without any",
                             place));
  }
  if (config.cluster.sync && config.cluster.max_staleness > 0) {
    throw InvalidArgument(
        "RunConfig: max_staleness is {}, but with sync all tasks have the values of the same step; "
        "leave it 0, or set sync to false",
        config.cluster.max_staleness);
  }
}

void check(const EstimatorOptions& options, const RunConfig& config) {
  const TaskEnvironment& environment = config.cluster.task;
  const std::string place = fmt::format("{} makes this task {} of a cluster", environment.source,
                                        environment.task.name());
  if (options.learner != nullptr) {
    throw Unimplemented("boosted trees train in one process alone, but {}; unset it", place);
  }
  check_strategy(config, place);
  check_updates(config, place);
  if (environment.num_ps_replicas == 0) return;
  if (options.moving_average) {
    throw Unimplemented(
        "{} with ps tasks, which keep no moving_average so far; train without ps, or without "
        "averages",
        place);
  }
  if (config.cluster.train_distribute) config.cluster.train_distribute(config)->check(options);
}

}  // namespace

Estimator cluster_member(const Estimator& estimator) {
  RunConfig config = estimator.config();
  check(estimator.options(), config);
  config.cluster.train_distribute = choose(config);
  return {estimator.options(), std::move(config)};
}

}  // namespace muster::internal
