#include "muster/orchestration/tuning/hyperparameter_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/suggestion.h"

namespace muster::tuning {
namespace {

using Json = nlohmann::json;

template <typename T>
struct Word {
  const char* word;
  T value;
};

constexpr Word<Goal> kGoals[] = {{"GOAL_TYPE_UNSPECIFIED", Goal::kMaximize},
                                 {"MAXIMIZE", Goal::kMaximize},
                                 {"MINIMIZE", Goal::kMinimize}};
constexpr Word<ParameterType> kTypes[] = {{"DOUBLE", ParameterType::kDouble},
                                          {"INTEGER", ParameterType::kInteger},
                                          {"CATEGORICAL", ParameterType::kCategorical},
                                          {"DISCRETE", ParameterType::kDiscrete}};
constexpr Word<Scale> kScales[] = {{"NONE", Scale::kLinear},
                                   {"SCALE_TYPE_UNSPECIFIED", Scale::kLinear},
                                   {"UNIT_LINEAR_SCALE", Scale::kLinear},
                                   {"UNIT_LOG_SCALE", Scale::kLog},
                                   {"UNIT_REVERSE_LOG_SCALE", Scale::kReverseLog}};
constexpr Word<Algorithm> kAlgorithms[] = {{"ALGORITHM_UNSPECIFIED", Algorithm::kBayesian},
                                           {"GAUSSIAN_PROCESS_BANDIT", Algorithm::kBayesian},
                                           {"GRID_SEARCH", Algorithm::kGrid},
                                           {"RANDOM_SEARCH", Algorithm::kRandom},
                                           {"QUASI_RANDOM_SEARCH", Algorithm::kQuasiRandom},
                                           {"TPE", Algorithm::kTpe},
                                           {"CMA_ES", Algorithm::kCmaEs},
                                           {"POPULATION_BASED_TRAINING", Algorithm::kPopulation}};
constexpr Word<StoppingRule> kStoppingRules[] = {{"MEDIAN", StoppingRule::kMedian},
                                                 {"ASHA", StoppingRule::kAsha},
                                                 {"HYPERBAND", StoppingRule::kHyperband}};

constexpr std::int64_t kMostSteps = std::int64_t{1} << 52;
constexpr std::int64_t kMostReduction = 1000;

// Doubles count whole numbers up to here one by one.
constexpr double kMostInteger = 9007199254740992.0;

// A value and how the file calls it: "params[2].minValue".
class Field {
 public:
  Field(const Json& value, std::string name) : value_(value), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  std::string text() const {
    if (!value_.is_string()) refuse("a text");
    return value_.get<std::string>();
  }
  double number() const {
    double number = value_.is_number() ? value_.get<double>() : std::nan("");
    if (value_.is_string()) {
      const std::string& text = value_.get_ref<const std::string&>();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size()) refuse("a number");
    }
    if (!std::isfinite(number)) refuse("a number");
    return number;
  }
  std::int64_t integer(std::int64_t least, std::int64_t most) const {
    const double value = number();
    if (value != std::floor(value) || value < static_cast<double>(least) ||
        value > static_cast<double>(most)) {
      refuse(fmt::format("a whole number from {} to {}", least, most));
    }
    return static_cast<std::int64_t>(value);
  }
  bool boolean() const {
    if (!value_.is_boolean()) refuse("true or false");
    return value_.get<bool>();
  }
  /// A category, as a flag has it: numbers and booleans are what YAML takes unquoted words for.
  std::string category() const {
    if (value_.is_number_integer()) return std::to_string(value_.get<std::int64_t>());
    if (value_.is_number()) return value_text(value_.get<double>());
    if (value_.is_boolean()) return value_.get<bool>() ? "true" : "false";
    return text();
  }
  std::vector<Field> items() const {
    if (!value_.is_array()) refuse("a list");
    std::vector<Field> items;
    items.reserve(value_.size());
    for (std::size_t i = 0; i < value_.size(); ++i) {
      items.emplace_back(value_[i], fmt::format("{}[{}]", name_, i));
    }
    return items;
  }
  std::vector<std::pair<std::string, Field>> entries() const {
    if (!value_.is_object()) refuse("a map of names to values");
    std::vector<std::pair<std::string, Field>> entries;
    for (const auto& [key, value] : value_.items()) {
      entries.emplace_back(key, Field(value, fmt::format("{}.{}", name_, key)));
    }
    return entries;
  }
  template <typename T, std::size_t N>
  T one_of(const Word<T> (&words)[N]) const {
    const std::string given = text();
    std::vector<std::string> known;
    for (const auto& word : words) {
      if (given == word.word) return word.value;
      known.emplace_back(word.word);
    }
    refuse(fmt::format("one of {}", fmt::join(known, ", ")));
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    throw InvalidArgument("{} must be {}: {}", name_, expected,
                          printable(value_.dump().substr(0, 80)));
  }
  [[noreturn]] void unknown(const std::vector<std::string>& known) const {
    const std::string key = name_.substr(name_.rfind('.') + 1);
    throw InvalidArgument("{} is no field that is known{}", name_, did_you_mean(key, known));
  }

 private:
  const Json& value_;
  std::string name_;
};

// A parameter on the way: what was given of it.
struct GivenParameter {
  ParameterSpec spec{};
  std::optional<ParameterType> type{};
  std::optional<double> min{};
  std::optional<double> max{};
  bool has_scale = false;
  std::optional<Field> children{};
  std::vector<std::string> parent_values{};
  std::string place{};
};

std::vector<std::string> values_below(const Field& field) {
  for (const auto& [key, value] : field.entries()) {
    if (key != "values") value.unknown({"values"});
    std::vector<std::string> values;
    for (const Field& item : value.items()) values.push_back(item.category());
    return values;
  }
  field.refuse("a map with `values`");
}

GivenParameter read_parameter(const Field& field) {
  GivenParameter given{.place = field.name()};
  for (const auto& [key, value] : field.entries()) {
    if (key == "parameterName") {
      given.spec.name = value.text();
    } else if (key == "type") {
      given.type = value.one_of(kTypes);
    } else if (key == "minValue") {
      given.min = value.number();
    } else if (key == "maxValue") {
      given.max = value.number();
    } else if (key == "categoricalValues") {
      for (const Field& item : value.items()) {
        given.spec.categorical_values.push_back(item.category());
      }
    } else if (key == "discreteValues") {
      for (const Field& item : value.items()) given.spec.discrete_values.push_back(item.number());
    } else if (key == "scaleType") {
      given.spec.scale = value.one_of(kScales);
      given.has_scale = value.text() != "NONE" && value.text() != "SCALE_TYPE_UNSPECIFIED";
    } else if (key == "childParameterSpecs") {
      given.children.emplace(value);
    } else if (key == "parentIntValues" || key == "parentDiscreteValues" ||
               key == "parentCategoricalValues") {
      given.parent_values = values_below(value);
    } else {
      value.unknown({"parameterName", "type", "minValue", "maxValue", "categoricalValues",
                     "discreteValues", "scaleType", "childParameterSpecs", "parentIntValues",
                     "parentDiscreteValues", "parentCategoricalValues"});
    }
  }
  return given;
}

void check_name(const GivenParameter& given) {
  const std::string& name = given.spec.name;
  if (name.empty()) throw InvalidArgument("{}.parameterName is missing", given.place);
  const bool is_flag =
      name[0] != '-' && std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
      });
  if (!is_flag) {
    throw InvalidArgument(
        "{}.parameterName becomes a flag, and has letters, digits, '_', '-' and '.': \"{}\"",
        given.place, printable(name));
  }
}

void check_range(GivenParameter& given) {
  ParameterSpec& spec = given.spec;
  if (!given.min || !given.max) {
    throw InvalidArgument("parameter {}: DOUBLE and INTEGER need minValue and maxValue", spec.name);
  }
  spec.min_value = *given.min;
  spec.max_value = *given.max;
  if (spec.min_value > spec.max_value) {
    throw InvalidArgument("parameter {}: minValue {} is above maxValue {}", spec.name,
                          value_text(spec.min_value), value_text(spec.max_value));
  }
  if (spec.type != ParameterType::kInteger) return;
  for (const double end : {spec.min_value, spec.max_value}) {
    if (end != std::floor(end) || std::abs(end) > kMostInteger) {
      throw InvalidArgument("parameter {}: the range of an INTEGER has whole ends: {}", spec.name,
                            value_text(end));
    }
  }
}

void check_discrete(GivenParameter& given) {
  ParameterSpec& spec = given.spec;
  const auto& values = spec.discrete_values;
  if (values.empty() || values.size() > kMostChoices) {
    throw InvalidArgument("parameter {}: DISCRETE needs 1 to {} discreteValues, not {}", spec.name,
                          kMostChoices, values.size());
  }
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[i - 1]) continue;
    throw InvalidArgument("parameter {}: discreteValues must increase: {} stands behind {}",
                          spec.name, value_text(values[i]), value_text(values[i - 1]));
  }
  spec.min_value = values.front();
  spec.max_value = values.back();
}

void check_categorical(const GivenParameter& given) {
  const ParameterSpec& spec = given.spec;
  const auto& values = spec.categorical_values;
  if (values.empty() || values.size() > kMostChoices) {
    throw InvalidArgument("parameter {}: CATEGORICAL needs 1 to {} categoricalValues, not {}",
                          spec.name, kMostChoices, values.size());
  }
  std::set<std::string> seen;
  for (const std::string& value : values) {
    if (!seen.insert(value).second) {
      throw InvalidArgument("parameter {}: the categoricalValue \"{}\" stands twice", spec.name,
                            printable(value));
    }
  }
  if (given.min || given.max) {
    throw InvalidArgument("parameter {}: CATEGORICAL has no minValue and maxValue", spec.name);
  }
  if (given.has_scale) throw InvalidArgument("parameter {}: CATEGORICAL has no scale", spec.name);
}

void check_parameter(GivenParameter& given) {
  check_name(given);
  ParameterSpec& spec = given.spec;
  if (!given.type) {
    throw InvalidArgument(
        "parameter {}: type is missing; it is DOUBLE, INTEGER, CATEGORICAL or "
        "DISCRETE",
        spec.name);
  }
  spec.type = *given.type;
  if (!spec.categorical_values.empty() && spec.type != ParameterType::kCategorical) {
    throw InvalidArgument("parameter {}: categoricalValues are for CATEGORICAL alone", spec.name);
  }
  if (!spec.discrete_values.empty() && spec.type != ParameterType::kDiscrete) {
    throw InvalidArgument("parameter {}: discreteValues are for DISCRETE alone", spec.name);
  }
  if (spec.type == ParameterType::kCategorical) return check_categorical(given);
  if (spec.type == ParameterType::kDiscrete) {
    check_discrete(given);
  } else {
    check_range(given);
  }
  if (spec.scale != Scale::kLinear && spec.min_value <= 0) {
    throw InvalidArgument(
        "parameter {}: a log scale needs a range above 0, and this one begins at "
        "{}",
        spec.name, value_text(spec.min_value));
  }
}

bool parent_has(const ParameterSpec& parent, const std::string& value) {
  if (parent.type == ParameterType::kCategorical) {
    const auto& all = parent.categorical_values;
    return std::find(all.begin(), all.end(), value) != all.end();
  }
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) return false;
  if (parent.type == ParameterType::kDiscrete) {
    const auto& all = parent.discrete_values;
    return std::find(all.begin(), all.end(), number) != all.end();
  }
  return number == std::floor(number) && number >= parent.min_value && number <= parent.max_value;
}

void check_condition(const GivenParameter& given, const ParameterSpec& parent) {
  const std::string& name = given.spec.name;
  if (parent.type == ParameterType::kDouble) {
    throw InvalidArgument(
        "parameter {}: the parent {} is a DOUBLE, of which no single value can "
        "be asked for",
        name, parent.name);
  }
  if (given.parent_values.empty()) {
    throw InvalidArgument(
        "parameter {}: a child needs parentIntValues, parentDiscreteValues or "
        "parentCategoricalValues",
        name);
  }
  for (const std::string& value : given.parent_values) {
    if (!parent_has(parent, value)) {
      throw InvalidArgument("parameter {}: the parent {} never has the value \"{}\"", name,
                            parent.name, printable(value));
    }
  }
}

bool are_disjoint(const ParameterSpec& one, const ParameterSpec& other) {
  if (!one.condition || !other.condition || one.condition->parent != other.condition->parent) {
    return false;
  }
  return std::none_of(one.condition->values.begin(), one.condition->values.end(),
                      [&](const std::string& value) {
                        const auto& values = other.condition->values;
                        return std::find(values.begin(), values.end(), value) != values.end();
                      });
}

class ParameterReader {
 public:
  std::vector<ParameterSpec> read(const Field& list) {
    read_list(list, std::nullopt);
    if (params_.empty())
      throw InvalidArgument("{} is empty: there is nothing to search", list.name());
    return std::move(params_);
  }

 private:
  void read_list(const Field& list, std::optional<std::size_t> parent) {
    for (const Field& item : list.items()) {
      if (params_.size() == kMostParameters) {
        throw InvalidArgument("a study has {} parameters at most", kMostParameters);
      }
      GivenParameter given = read_parameter(item);
      check_parameter(given);
      if (parent) {
        check_condition(given, params_[*parent]);
        given.spec.condition = {.parent = *parent, .values = normalized(given, params_[*parent])};
      } else if (!given.parent_values.empty()) {
        throw InvalidArgument(
            "parameter {}: it has values of a parent, but stands in no parent's "
            "childParameterSpecs",
            given.spec.name);
      }
      add(std::move(given.spec));
      if (given.children) read_list(*given.children, params_.size() - 1);
    }
  }

  // As the parent's values are written: "1.0" is the integer 1.
  static std::vector<std::string> normalized(const GivenParameter& given,
                                             const ParameterSpec& parent) {
    if (parent.type == ParameterType::kCategorical) return given.parent_values;
    std::vector<std::string> values;
    values.reserve(given.parent_values.size());
    for (const std::string& value : given.parent_values) {
      values.push_back(value_text(std::stod(value)));
    }
    return values;
  }

  void add(ParameterSpec spec) {
    for (const ParameterSpec& other : params_) {
      if (other.name != spec.name || are_disjoint(other, spec)) continue;
      throw InvalidArgument(
          "parameter {}: duplicate parameter name; children of one name need "
          "different values of their parent",
          spec.name);
    }
    params_.push_back(std::move(spec));
  }

  std::vector<ParameterSpec> params_;
};

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
  if (spec.algorithm != Algorithm::kPopulation) {
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

void check_study(const HyperparameterSpec& spec) {
  if (spec.params.empty()) throw InvalidArgument("hyperparameters.params is missing");
  if (spec.metric_tag.empty()) {
    throw InvalidArgument("hyperparameters.hyperparameterMetricTag is empty");
  }
  check_halving(spec);
  check_population(spec);
  check_steps_parameter(spec);
  check_goals(spec);
  if (spec.algorithm != Algorithm::kGrid) return;
  for (const ParameterSpec& parameter : spec.params) {
    if (parameter.type == ParameterType::kDouble) {
      throw InvalidArgument("parameter {}: GRID_SEARCH goes over no DOUBLE; make it DISCRETE",
                            parameter.name);
    }
  }
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  for (const auto& word : kAlgorithms) {
    if (word.value == algorithm) return word.word;
  }
  throw Internal("an algorithm without a name: {}", static_cast<int>(algorithm));
}

std::string value_text(double value) {
  std::array<char, 32> text{};
  const bool is_whole = value == std::floor(value) && std::abs(value) < kMostInteger;
  const auto [end, error] = is_whole ? std::to_chars(text.data(), text.data() + text.size(),
                                                     static_cast<std::int64_t>(value))
                                     : std::to_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) throw Internal("a number longer than {} characters", text.size());
  return {text.data(), end};
}

namespace {

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

double number_within(const Field& field, double least, double most) {
  const double number = field.number();
  if (number < least || number > most) {
    field.refuse(fmt::format("a number from {} to {}", least, most));
  }
  return number;
}

PopulationTraining read_population(const Field& field) {
  PopulationTraining population;
  for (const auto& [key, value] : field.entries()) {
    if (key == "size") {
      population.size = value.integer(2, kMostTrials);
    } else if (key == "stepsFlag") {
      population.steps_flag = value.text();
    } else if (key == "quantile") {
      population.quantile = number_within(value, 0, 0.5);
    } else if (key == "resampleProbability") {
      population.resample_probability = number_within(value, 0, 1);
    } else if (key == "perturbFactor") {
      population.perturb_factor = number_within(value, 1.01, 1.99);
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
      throw InvalidArgument("{}: the metric {} stands twice", item.name(), goals.back().tag);
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

}  // namespace

HyperparameterSpec parse_hyperparameters(std::string_view text) {
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
      spec.params = ParameterReader().read(value);
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
      spec.algorithm = value.one_of(kAlgorithms);
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
  if (spec.algorithm == Algorithm::kPopulation && !spec.population) spec.population.emplace();
  check_study(spec);
  return spec;
}

}  // namespace muster::tuning
