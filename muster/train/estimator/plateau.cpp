#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/train/estimator/eval_metrics.h"
#include "muster/train/estimator/plateau_internal.h"

namespace muster::internal {
namespace {

double metric_of(const EvaluationResult& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  if (found != metrics.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& entry : metrics) names.push_back(entry.first);
  throw NotFound("reduce_on_plateau: the evaluation has no metric \"{}\"; it has: {}", name,
                 fmt::join(names, ", "));
}

}  // namespace

void check(const PlateauOptions& options) {
  if (!(options.factor > 0 && options.factor < 1)) {
    throw InvalidArgument("reduce_on_plateau: factor must be in (0, 1): {}", options.factor);
  }
  if (options.patience <= 0) {
    throw InvalidArgument("reduce_on_plateau: patience must be positive: {}", options.patience);
  }
  if (options.cooldown < 0) {
    throw InvalidArgument("reduce_on_plateau: cooldown must not be negative: {}", options.cooldown);
  }
  if (!(options.min_delta >= 0)) {
    throw InvalidArgument("reduce_on_plateau: min_delta must not be negative: {}",
                          options.min_delta);
  }
  if (!(options.min_factor >= 0 && options.min_factor < 1)) {
    throw InvalidArgument("reduce_on_plateau: min_factor must be in [0, 1): {}",
                          options.min_factor);
  }
}

double plateau_factor(const PlateauOptions& options,
                      const std::map<std::int64_t, double>& evaluations) {
  double factor = 1;
  std::optional<double> best;
  std::int64_t waited = 0;
  std::int64_t cooling = 0;
  for (const auto& [step, value] : evaluations) {
    const bool counts = cooling == 0;
    if (!counts) --cooling;
    const bool is_better = !best || (options.higher_is_better ? value > *best + options.min_delta
                                                              : value < *best - options.min_delta);
    if (is_better) {
      best = value;
      waited = 0;
    } else if (counts && ++waited >= options.patience) {
      factor = std::max(options.min_factor, factor * options.factor);
      waited = 0;
      cooling = options.cooldown;
    }
  }
  return factor;
}

Plateau::Plateau(PlateauOptions options) : options_(std::move(options)) { check(options_); }

double Plateau::factor(std::int64_t step) const {
  const std::lock_guard lock(mutex_);
  return plateau_factor(options_, {evaluations_.begin(), evaluations_.upper_bound(step)});
}

void Plateau::begin(Session& session) {
  const std::string folder =
      options_.eval_name.empty() ? "eval" : fmt::format("eval_{}", options_.eval_name);
  auto evaluations = read_eval_metric(session.config().model_dir / folder, options_.metric);
  // Those of later steps are of a run that was given up.
  evaluations.erase(evaluations.upper_bound(session.global_step()), evaluations.end());
  const std::lock_guard lock(mutex_);
  evaluations_ = std::move(evaluations);
}

void Plateau::after_evaluation(Session& session, const EvaluationResult& metrics) {
  const double value = metric_of(metrics, options_.metric);
  const std::int64_t step = session.global_step();
  const double before = factor(step);
  {
    const std::lock_guard lock(mutex_);
    evaluations_[step] = value;
  }
  const double after = factor(step);
  if (after == before) return;
  log::info("learning rates are reduced to {:g} of their schedules: {} is {:g} at step {}", after,
            options_.metric, value, step);
}

}  // namespace muster::internal
