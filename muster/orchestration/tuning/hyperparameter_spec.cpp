#include "muster/orchestration/tuning/hyperparameter_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/orchestration/tuning/json_field_internal.h"
#include "muster/orchestration/tuning/parameter_reader_internal.h"
#include "muster/orchestration/tuning/search_algorithms.h"

namespace muster::tuning {
namespace {

using Json = nlohmann::json;

constexpr Word<Goal> kGoals[] = {{"GOAL_TYPE_UNSPECIFIED", Goal::kMaximize},
                                 {"MAXIMIZE", Goal::kMaximize},
                                 {"MINIMIZE", Goal::kMinimize}};
constexpr Word<StoppingRule> kStoppingRules[] = {{"MEDIAN", StoppingRule::kMedian},
                                                 {"ASHA", StoppingRule::kAsha},
                                                 {"HYPERBAND", StoppingRule::kHyperband}};

constexpr std::int64_t kMostSteps = std::int64_t{1} << 52;
constexpr std::int64_t kMostReduction = 1000;

void check_halving(const HyperparameterSpec& spec) {
  if (!spec.halving) return;
  if (spec.enable_trial_early_stopping) {
    throw InvalidArgument(
        "hyperparameters.trialStopping and enableTrialEarlyStopping are two rules; give one");
  }
  for (const ParameterSpec& parameter : spec.params) {
    if (parameter.name != spec.halving->steps_flag) continue;
    throw InvalidArgument("parameter {}: trialStopping gives --{} to every trial", parameter.name,
                          parameter.name);
  }
}

bool has_parameter(const HyperparameterSpec& spec, const std::string& name) {
  return std::any_of(spec.params.begin(), spec.params.end(),
                     [&](const ParameterSpec& parameter) { return parameter.name == name; });
}

void check_population(const HyperparameterSpec& spec) {
  if (!spec.population) return;
  if (spec.algorithm != kPopulationBasedTraining) {
    throw InvalidArgument(
        "hyperparameters.population is for the algorithm POPULATION_BASED_TRAINING alone");
  }
  if (spec.halving || spec.enable_trial_early_stopping) {
    throw InvalidArgument(
        "hyperparameters: POPULATION_BASED_TRAINING has rounds of its own; leave out trialStopping "
        "and enableTrialEarlyStopping");
  }
  if (!spec.other_goals.empty() || !spec.constraints.empty()) {
    throw InvalidArgument(
        "hyperparameters: POPULATION_BASED_TRAINING compares one metric; leave out other metrics "
        "and constraints");
  }
  if (!spec.resume_previous_job_id.empty()) {
    throw InvalidArgument(
        "hyperparameters.resumePreviousJobId: a population starts from scratch; "
        "POPULATION_BASED_TRAINING "
        "takes no trials of an earlier study");
  }
  if (has_parameter(spec, spec.population->steps_flag)) {
    throw InvalidArgument("parameter {}: population gives --{} to every trial",
                          spec.population->steps_flag, spec.population->steps_flag);
  }
  for (const std::string& name : spec.population->inherited_params) {
    if (has_parameter(spec, name)) continue;
    throw InvalidArgument("hyperparameters.population.inheritedParams: there is no parameter {}",
                          printable(name));
  }
}

void check_steps_parameter(const HyperparameterSpec& spec) {
  if (spec.steps_parameter.empty()) return;
  const auto found = std::find_if(
      spec.params.begin(), spec.params.end(),
      [&](const ParameterSpec& parameter) { return parameter.name == spec.steps_parameter; });
  const bool is_counted =
      found != spec.params.end() && !found->condition &&
      (found->type == ParameterType::kInteger || found->type == ParameterType::kDiscrete);
  if (!is_counted) {
    throw InvalidArgument(
        "hyperparameters.stepsParameter must name an INTEGER or DISCRETE parameter that every "
        "trial has: {}",
        printable(spec.steps_parameter));
  }
  if (spec.halving || spec.population) {
    throw InvalidArgument(
        "hyperparameters.stepsParameter: under trialStopping and POPULATION_BASED_TRAINING trials "
        "go on from checkpoints by themselves; leave it out");
  }
}

void check_goals(const HyperparameterSpec& spec) {
  if (spec.other_goals.empty() && spec.constraints.empty()) return;
  if (spec.halving || spec.enable_trial_early_stopping) {
    throw InvalidArgument(
        "hyperparameters: trials are stopped by one metric; a study with several metrics or with "
        "constraints trains all of them to the end");
  }
  if (!spec.resume_previous_job_id.empty()) {
    throw InvalidArgument(
        "hyperparameters.resumePreviousJobId: what an earlier study says of its one metric cannot "
        "be compared with several metrics or constraints");
  }
}

void check_study(const HyperparameterSpec& spec, const SearchAlgorithms& algorithms) {
  if (spec.params.empty()) throw InvalidArgument("hyperparameters.params is missing");
  if (spec.metric_tag.empty()) {
    throw InvalidArgument("hyperparameters.hyperparameterMetricTag is empty");
  }
  check_halving(spec);
  check_population(spec);
  check_steps_parameter(spec);
  check_goals(spec);
  const auto& check = algorithms.find(spec.algorithm).check;
  if (check) check(spec);
}

void read_stopping(const Field& field, HyperparameterSpec& spec) {
  TrialStopping stopping;
  bool has_rule = false;
  for (const auto& [key, value] : field.entries()) {
    if (key == "rule") {
      stopping.rule = value.one_of(kStoppingRules);
      has_rule = true;
    } else if (key == "stepsFlag") {
      stopping.steps_flag = value.text();
    } else if (key == "minSteps") {
      stopping.min_steps = value.integer(1, kMostSteps);
    } else if (key == "reductionFactor") {
      stopping.reduction = value.integer(2, kMostReduction);
    } else {
      value.unknown({"rule", "stepsFlag", "minSteps", "reductionFactor"});
    }
  }
  if (!has_rule) throw InvalidArgument("{}.rule is missing", field.name());
  if (stopping.rule == StoppingRule::kMedian) {
    spec.enable_trial_early_stopping = true;
  } else {
    spec.halving = std::move(stopping);
  }
}

PopulationTraining read_population(const Field& field) {
  PopulationTraining population;
  for (const auto& [key, value] : field.entries()) {
    if (key == "size") {
      population.size = value.integer(2, kMostTrials);
    } else if (key == "stepsFlag") {
      population.steps_flag = value.text();
    } else if (key == "quantile") {
      population.quantile = value.number(0, 0.5);
    } else if (key == "resampleProbability") {
      population.resample_probability = value.number(0, 1);
    } else if (key == "perturbFactor") {
      population.perturb_factor = value.number(1.01, 1.99);
    } else if (key == "inheritedParams") {
      for (const Field& item : value.items()) population.inherited_params.push_back(item.text());
    } else {
      value.unknown({"size", "stepsFlag", "quantile", "resampleProbability", "perturbFactor",
                     "inheritedParams"});
    }
  }
  return population;
}

MetricGoal read_goal(const Field& field) {
  MetricGoal goal;
  for (const auto& [key, value] : field.entries()) {
    if (key == "metric") {
      goal.tag = value.text();
    } else if (key == "goal") {
      goal.goal = value.one_of(kGoals);
    } else {
      value.unknown({"metric", "goal"});
    }
  }
  if (goal.tag.empty()) throw InvalidArgument("{}.metric is missing", field.name());
  return goal;
}

// The first is that of a study with one goal.
void read_goals(const Field& field, HyperparameterSpec& spec) {
  std::vector<MetricGoal> goals;
  for (const Field& item : field.items()) {
    goals.push_back(read_goal(item));
    const auto is_same = [&](const MetricGoal& other) { return other.tag == goals.back().tag; };
    if (std::any_of(goals.begin(), goals.end() - 1, is_same)) {
      throw InvalidArgument("{}: duplicate metric {}", item.name(), goals.back().tag);
    }
  }
  if (goals.empty() || goals.size() > kMostGoals) {
    throw InvalidArgument("{} has from 1 to {} metrics", field.name(), kMostGoals);
  }
  spec.metric_tag = goals.front().tag;
  spec.goal = goals.front().goal;
  spec.other_goals.assign(goals.begin() + 1, goals.end());
}

MetricBound read_bound(const Field& field) {
  MetricBound bound;
  for (const auto& [key, value] : field.entries()) {
    if (key == "metric") {
      bound.tag = value.text();
    } else if (key == "minValue") {
      bound.min_value = value.number();
    } else if (key == "maxValue") {
      bound.max_value = value.number();
    } else {
      value.unknown({"metric", "minValue", "maxValue"});
    }
  }
  if (bound.tag.empty()) throw InvalidArgument("{}.metric is missing", field.name());
  if (!bound.min_value && !bound.max_value) {
    throw InvalidArgument("{} needs minValue or maxValue", field.name());
  }
  if (bound.min_value && bound.max_value && *bound.min_value > *bound.max_value) {
    throw InvalidArgument("{}: minValue {} is above maxValue {}", field.name(), *bound.min_value,
                          *bound.max_value);
  }
  return bound;
}

std::vector<MetricBound> read_bounds(const Field& field) {
  std::vector<MetricBound> bounds;
  for (const Field& item : field.items()) bounds.push_back(read_bound(item));
  if (bounds.size() > kMostGoals) {
    throw InvalidArgument("{} has {} at most", field.name(), kMostGoals);
  }
  return bounds;
}

// The first of an algorithm's names: a study may be resumed by another of them.
std::string read_algorithm(const Field& field, const SearchAlgorithms& algorithms) {
  const std::string name = field.text();
  if (!algorithms.has(name)) field.refuse_all_but(algorithms.names());
  return algorithms.find(name).names.front();
}

}  // namespace

std::string value_text(double value) {
  std::array<char, 32> text{};
  const bool is_whole = value == std::floor(value) && std::abs(value) < kMostInteger;
  const auto [end, error] = is_whole ? std::to_chars(text.data(), text.data() + text.size(),
                                                     static_cast<std::int64_t>(value))
                                     : std::to_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) throw Internal("a number longer than {} characters", text.size());
  return {text.data(), end};
}

HyperparameterSpec parse_hyperparameters(std::string_view text) {
  return parse_hyperparameters(text, SearchAlgorithms::built_in());
}

HyperparameterSpec parse_hyperparameters(std::string_view text,
                                         const SearchAlgorithms& algorithms) {
  const Json block = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (block.is_discarded()) throw InvalidArgument("hyperparameters: no JSON");
  HyperparameterSpec spec;
  const Field whole(block, "hyperparameters");
  if (block.contains("metrics") &&
      (block.contains("goal") || block.contains("hyperparameterMetricTag"))) {
    throw InvalidArgument(
        "hyperparameters.metrics has all metrics and goals: leave out goal and "
        "hyperparameterMetricTag");
  }
  for (const auto& [key, value] : whole.entries()) {
    if (key == "goal") {
      spec.goal = value.one_of(kGoals);
    } else if (key == "params") {
      spec.params = read_parameters(value);
    } else if (key == "maxTrials") {
      spec.max_trials = value.integer(1, kMostTrials);
    } else if (key == "maxParallelTrials") {
      spec.max_parallel_trials = value.integer(1, kMostTrials);
    } else if (key == "maxFailedTrials") {
      spec.max_failed_trials = value.integer(0, kMostTrials);
    } else if (key == "hyperparameterMetricTag") {
      spec.metric_tag = value.text();
    } else if (key == "metrics") {
      read_goals(value, spec);
    } else if (key == "constraints") {
      spec.constraints = read_bounds(value);
    } else if (key == "resumePreviousJobId") {
      spec.resume_previous_job_id = value.text();
    } else if (key == "enableTrialEarlyStopping") {
      spec.enable_trial_early_stopping = value.boolean();
    } else if (key == "trialStopping") {
      read_stopping(value, spec);
    } else if (key == "algorithm") {
      spec.algorithm = read_algorithm(value, algorithms);
    } else if (key == "population") {
      spec.population = read_population(value);
    } else if (key == "stepsParameter") {
      spec.steps_parameter = value.text();
    } else {
      value.unknown({"goal", "params", "maxTrials", "maxParallelTrials", "maxFailedTrials",
                     "hyperparameterMetricTag", "metrics", "constraints", "resumePreviousJobId",
                     "enableTrialEarlyStopping", "trialStopping", "algorithm", "population",
                     "stepsParameter"});
    }
  }
  if (spec.algorithm == kPopulationBasedTraining && !spec.population) spec.population.emplace();
  check_study(spec, algorithms);
  return spec;
}

}  // namespace muster::tuning
