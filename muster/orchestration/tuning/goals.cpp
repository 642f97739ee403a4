#include "muster/orchestration/tuning/goals.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::tuning {
namespace {

constexpr std::uint64_t kWeightPart = 61;
// The share of the weighted sum: without it, points of the front that differ in one goal are equal.
constexpr double kSumShare = 0.05;

double loss_by(Goal goal, double value) { return goal == Goal::kMaximize ? -value : value; }

// Losses of all goals, each to be minimised.
std::vector<double> losses_of(const HyperparameterSpec& spec, const Trial& trial) {
  std::vector<double> losses{loss_by(spec.goal, trial.final_metric->value)};
  for (const MetricGoal& goal : spec.other_goals) {
    const auto value = metric_value(spec, trial, goal.tag);
    losses.push_back(value ? loss_by(goal.goal, *value) : std::numeric_limits<double>::infinity());
  }
  return losses;
}

double relative_excess(double excess, double bound) {
  if (excess <= 0) return 0;
  return excess / (bound == 0 ? 1 : std::abs(bound));
}

// Positive, of sum 1; all such as likely.
std::vector<double> random_weights(std::size_t count, std::uint64_t seed, std::uint64_t number) {
  Random random(seed, kWeightPart, number);
  std::vector<double> weights;
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    weights.push_back(-std::log1p(-random.uniform()));
    sum += weights.back();
  }
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 1.0 / static_cast<double>(count);
  return weights;
}

// Each goal from 0, the best of all, to 1.
void normalize(std::vector<std::vector<double>>& losses) {
  for (std::size_t goal = 0; goal < losses.front().size(); ++goal) {
    double low = std::numeric_limits<double>::infinity();
    double high = -low;
    for (const auto& trial : losses) {
      low = std::min(low, trial[goal]);
      high = std::max(high, trial[goal]);
    }
    for (auto& trial : losses) {
      trial[goal] = high > low ? (trial[goal] - low) / (high - low) : 0;
    }
  }
}

std::vector<double> weighed(std::vector<std::vector<double>> losses, std::uint64_t seed,
                            std::uint64_t number) {
  normalize(losses);
  const auto weights = random_weights(losses.front().size(), seed, number);
  std::vector<double> scalars;
  for (const auto& trial : losses) {
    double most = 0;
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      most = std::max(most, weights[i] * trial[i]);
      sum += weights[i] * trial[i];
    }
    scalars.push_back(most + kSumShare * sum);
  }
  return scalars;
}

}  // namespace

bool has_several_goals(const HyperparameterSpec& spec) {
  return !spec.other_goals.empty() || !spec.constraints.empty();
}

std::vector<std::string> other_tags(const HyperparameterSpec& spec) {
  std::vector<std::string> tags;
  const auto add = [&](const std::string& tag) {
    const bool is_new =
        tag != spec.metric_tag && std::find(tags.begin(), tags.end(), tag) == tags.end();
    if (is_new) tags.push_back(tag);
  };
  for (const MetricGoal& goal : spec.other_goals) add(goal.tag);
  for (const MetricBound& bound : spec.constraints) add(bound.tag);
  return tags;
}

std::optional<double> metric_value(const HyperparameterSpec& spec, const Trial& trial,
                                   const std::string& tag) {
  if (tag == spec.metric_tag) {
    return trial.final_metric ? std::optional(trial.final_metric->value) : std::nullopt;
  }
  const auto& all = trial.other_metrics;
  if (const auto colon = tag.find(':'); colon != tag.npos) {
    const auto named = all.find(tag.substr(0, colon) + "/" + tag.substr(colon + 1));
    if (named != all.end()) return named->second;
  }
  std::vector<std::string> evaluations;
  std::vector<std::string> others;
  for (const auto& [name, value] : all) {
    const auto slash = name.find('/');
    const bool is_below = slash != name.npos && name.substr(slash + 1) == tag;
    if (name != tag && !is_below) continue;
    (is_below && name.starts_with("eval") ? evaluations : others).push_back(name);
  }
  const auto& found = evaluations.empty() ? others : evaluations;
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return all.at(found.front());
  throw FailedPrecondition("the metric {} is in several folders: {}; name one, as in FOLDER:{}",
                           tag, listed(found), tag);
}

double violation_of(const HyperparameterSpec& spec, const Trial& trial) {
  double sum = 0;
  for (const MetricBound& bound : spec.constraints) {
    const auto value = metric_value(spec, trial, bound.tag);
    if (!value) return std::numeric_limits<double>::infinity();
    if (bound.max_value) sum += relative_excess(*value - *bound.max_value, *bound.max_value);
    if (bound.min_value) sum += relative_excess(*bound.min_value - *value, *bound.min_value);
  }
  return sum;
}

bool dominates(const HyperparameterSpec& spec, const Trial& one, const Trial& other) {
  const auto a = losses_of(spec, one);
  const auto b = losses_of(spec, other);
  bool is_better = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    is_better |= a[i] < b[i];
  }
  return is_better;
}

std::vector<const Trial*> pareto_front(const HyperparameterSpec& spec,
                                       std::span<const Trial> trials) {
  std::vector<const Trial*> inside;
  for (const Trial& trial : trials) {
    if (trial.state == TrialState::kSucceeded && violation_of(spec, trial) == 0) {
      inside.push_back(&trial);
    }
  }
  std::vector<const Trial*> front;
  for (const Trial* trial : inside) {
    const bool is_beaten = std::any_of(inside.begin(), inside.end(), [&](const Trial* other) {
      return dominates(spec, *other, *trial);
    });
    if (!is_beaten) front.push_back(trial);
  }
  return front;
}

std::vector<double> scalar_losses(const HyperparameterSpec& spec,
                                  std::span<const Trial* const> trials, std::uint64_t seed,
                                  std::uint64_t number) {
  if (trials.empty()) return {};
  std::vector<std::vector<double>> losses;
  for (const Trial* trial : trials) losses.push_back(losses_of(spec, *trial));
  std::vector<double> scalars;
  if (spec.other_goals.empty()) {
    for (const auto& trial : losses) scalars.push_back(trial.front());
  } else {
    scalars = weighed(std::move(losses), seed, number);
  }
  const auto [least, most] = std::minmax_element(scalars.begin(), scalars.end());
  const double worst = *most;
  const double spread = *most > *least ? *most - *least : 1;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const double violation = violation_of(spec, *trials[i]);
    // At most twice as far as the others are apart: how bad it is says little of where it is good.
    if (violation > 0) scalars[i] = worst + spread * (0.1 + violation / (1 + violation));
  }
  return scalars;
}

}  // namespace muster::tuning
