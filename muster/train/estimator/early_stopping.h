#pragma once

#include <functional>
#include <optional>
#include <string>

#include "muster/train/engine/hook.h"
#include "muster/train/hooks/second_or_step_timer.h"

/// Ending a training that gets no better. The decision is made on the chief from what evaluations
/// have written, is logged with its reason, and is kept nowhere: a checkpoint saved at that moment
/// trains on like any other.
namespace muster {

/// Why training should stop now, or nothing.
using ShouldStopFn = std::function<std::optional<std::string>(Session&)>;

struct EarlyStoppingPeriod {
  /// At most one of the two is set; 60 s when neither is.
  std::optional<Seconds> run_every_secs{};
  std::optional<std::int64_t> run_every_steps{};
  ClockFn clock = std::chrono::steady_clock::now;
};

/// Asks `should_stop` after the first step and then by its period. Throws InvalidArgument for an
/// empty function or both periods.
HookPtr make_early_stopping_hook(ShouldStopFn should_stop, const EarlyStoppingPeriod& period = {});

struct StopIfOptions {
  /// Where evaluations write; empty: `eval` in the model folder.
  Path eval_dir{};
  /// Evaluations of earlier steps do not count.
  std::int64_t min_steps = 0;
  EarlyStoppingPeriod period{};
};

/// Stop once an evaluation has `metric` above, or below, `threshold`; equal is neither. The hook
/// throws NotFound if evaluations have no such metric.
HookPtr stop_if_higher(std::string metric, double threshold, StopIfOptions options = {});
HookPtr stop_if_lower(std::string metric, double threshold, StopIfOptions options = {});

/// Stop once an evaluation lies this many steps or more behind the best one, and none between is
/// better; equal is not better. Throws InvalidArgument unless the number of steps is positive.
HookPtr stop_if_no_increase(std::string metric, std::int64_t max_steps_without_increase,
                            StopIfOptions options = {});
HookPtr stop_if_no_decrease(std::string metric, std::int64_t max_steps_without_decrease,
                            StopIfOptions options = {});

}  // namespace muster
