#include "muster/train/estimator/early_stopping.h"

#include <map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/train/estimator/eval_metrics.h"

namespace muster {
namespace {

constexpr Seconds kDefaultPeriod{60};

TimerPeriod period_of(const EarlyStoppingPeriod& period) {
  if (!period.run_every_steps && !period.run_every_secs) return {.every_secs = kDefaultPeriod};
  return {.every_steps = period.run_every_steps, .every_secs = period.run_every_secs};
}

class EarlyStoppingHook : public Hook {
 public:
  EarlyStoppingHook(ShouldStopFn should_stop, const EarlyStoppingPeriod& period)
      : should_stop_(std::move(should_stop)),
        timer_("early stopping", period_of(period), period.clock) {
    if (!should_stop_) throw InvalidArgument("early stopping: should_stop is empty");
  }

  void after_create_session(Session&) override { timer_.reset(); }

  void after_run(Session& session) override {
    const std::int64_t step = session.global_step();
    if (!session.config().is_chief() || !timer_.should_trigger(step)) return;
    timer_.update_last_triggered(step);
    const auto reason = should_stop_(session);
    if (!reason) return;
    log::info("Requesting early stopping at global step {}: {}", step, *reason);
    session.request_stop("early stopping: " + *reason);
  }

 private:
  ShouldStopFn should_stop_;
  SecondOrStepTimer timer_;
};

// Evaluations by step, from options.min_steps on.
using History = std::map<std::int64_t, double>;
using Rule = std::function<std::optional<std::string>(const History&)>;

HookPtr make_metric_hook(std::string metric, StopIfOptions options, Rule rule) {
  const EarlyStoppingPeriod period = options.period;
  ShouldStopFn should_stop = [metric = std::move(metric), options = std::move(options),
                              rule = std::move(rule)](Session& session) {
    const Path eval_dir =
        options.eval_dir.empty() ? session.config().model_dir / "eval" : options.eval_dir;
    History history = read_eval_metric(eval_dir, metric);
    history.erase(history.begin(), history.lower_bound(options.min_steps));
    return rule(history);
  };
  return make_early_stopping_hook(std::move(should_stop), period);
}

enum class Better { kHigher, kLower };

bool is_better(Better better, double value, double than) {
  return better == Better::kHigher ? value > than : value < than;
}

HookPtr stop_if_crossed(Better better, std::string metric, double threshold,
                        StopIfOptions options) {
  Rule rule = [better, metric, threshold](const History& history) -> std::optional<std::string> {
    for (const auto& [step, value] : history) {
      if (!is_better(better, value, threshold)) continue;
      return fmt::format("at step {}, metric {} is {:g}, {} than the threshold {:g}", step, metric,
                         value, better == Better::kHigher ? "higher" : "lower", threshold);
    }
    return std::nullopt;
  };
  return make_metric_hook(std::move(metric), std::move(options), std::move(rule));
}

HookPtr stop_if_stalled(Better better, std::string metric, std::int64_t max_steps,
                        StopIfOptions options) {
  const char* change = better == Better::kHigher ? "increase" : "decrease";
  if (max_steps <= 0) {
    throw InvalidArgument("early stopping: max_steps_without_{} must be positive: {}", change,
                          max_steps);
  }
  Rule rule = [=](const History& history) -> std::optional<std::string> {
    std::optional<History::value_type> best;
    for (const auto& [step, value] : history) {
      if (!best || is_better(better, value, best->second)) best.emplace(step, value);
      if (step - best->first < max_steps) continue;
      return fmt::format(
          "no {} in metric {} for {} steps, the limit is {}; best is {:g} at step {}", change,
          metric, step - best->first, max_steps, best->second, best->first);
    }
    return std::nullopt;
  };
  return make_metric_hook(metric, std::move(options), std::move(rule));
}

}  // namespace

HookPtr make_early_stopping_hook(ShouldStopFn should_stop, const EarlyStoppingPeriod& period) {
  return std::make_shared<EarlyStoppingHook>(std::move(should_stop), period);
}

HookPtr stop_if_higher(std::string metric, double threshold, StopIfOptions options) {
  return stop_if_crossed(Better::kHigher, std::move(metric), threshold, std::move(options));
}

HookPtr stop_if_lower(std::string metric, double threshold, StopIfOptions options) {
  return stop_if_crossed(Better::kLower, std::move(metric), threshold, std::move(options));
}

HookPtr stop_if_no_increase(std::string metric, std::int64_t max_steps_without_increase,
                            StopIfOptions options) {
  return stop_if_stalled(Better::kHigher, std::move(metric), max_steps_without_increase,
                         std::move(options));
}

HookPtr stop_if_no_decrease(std::string metric, std::int64_t max_steps_without_decrease,
                            StopIfOptions options) {
  return stop_if_stalled(Better::kLower, std::move(metric), max_steps_without_decrease,
                         std::move(options));
}

}  // namespace muster
