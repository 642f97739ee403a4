#include "muster/orchestration/tuning/search_space.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/printable.h"

namespace muster::tuning {
namespace {

constexpr double kInactive = std::numeric_limits<double>::quiet_NaN();

struct Range {
  double low;
  double high;
};

Range range_of(const ParameterSpec& parameter) {
  const double margin = parameter.type == ParameterType::kInteger ? 0.5 : 0.0;
  return {parameter.min_value - margin, parameter.max_value + margin};
}

double unit_of(double value, Range range, Scale scale) {
  if (range.low == range.high) return 0.5;
  const double ratio = std::log(range.high) - std::log(range.low);
  switch (scale) {
    case Scale::kLog:
      return (std::log(value) - std::log(range.low)) / ratio;
    case Scale::kReverseLog:
      return 1 - (std::log(range.low + range.high - value) - std::log(range.low)) / ratio;
    case Scale::kLinear:
      break;
  }
  return (value - range.low) / (range.high - range.low);
}

double value_of(double unit, Range range, Scale scale) {
  // Exactly, whatever logarithms round to.
  if (unit <= 0 || range.low == range.high) return range.low;
  if (unit >= 1) return range.high;
  const double ratio = std::log(range.high) - std::log(range.low);
  switch (scale) {
    case Scale::kLog:
      return std::exp(std::log(range.low) + unit * ratio);
    case Scale::kReverseLog:
      return range.low + range.high - std::exp(std::log(range.high) - unit * ratio);
    case Scale::kLinear:
      break;
  }
  return range.low + unit * (range.high - range.low);
}

}  // namespace

SearchSpace::SearchSpace(std::vector<ParameterSpec> parameters)
    : parameters_(std::move(parameters)) {
  if (parameters_.empty()) throw InvalidArgument("a search space without parameters");
}

bool SearchSpace::is_continuous(std::size_t parameter) const {
  const ParameterSpec& spec = parameters_[parameter];
  return spec.type == ParameterType::kDouble && spec.min_value < spec.max_value;
}

bool SearchSpace::is_categorical(std::size_t parameter) const {
  return parameters_[parameter].type == ParameterType::kCategorical;
}

std::uint64_t SearchSpace::choices(std::size_t parameter) const {
  const ParameterSpec& spec = parameters_[parameter];
  switch (spec.type) {
    case ParameterType::kInteger:
      return static_cast<std::uint64_t>(spec.max_value - spec.min_value) + 1;
    case ParameterType::kCategorical:
      return spec.categorical_values.size();
    case ParameterType::kDiscrete:
      return spec.discrete_values.size();
    case ParameterType::kDouble:
      break;
  }
  return 1;
}

double SearchSpace::coordinate_of_choice(std::size_t parameter, std::uint64_t choice) const {
  const ParameterSpec& spec = parameters_[parameter];
  switch (spec.type) {
    case ParameterType::kInteger:
      return coordinate_of(parameter, spec.min_value + static_cast<double>(choice));
    case ParameterType::kCategorical:
      return (static_cast<double>(choice) + 0.5) /
             static_cast<double>(spec.categorical_values.size());
    case ParameterType::kDiscrete:
      return coordinate_of(parameter, spec.discrete_values[choice]);
    case ParameterType::kDouble:
      break;
  }
  return 0.5;
}

std::uint64_t SearchSpace::nearest_choice(std::size_t parameter, double coordinate) const {
  const ParameterSpec& spec = parameters_[parameter];
  const double last = static_cast<double>(choices(parameter) - 1);
  switch (spec.type) {
    case ParameterType::kInteger:
      return static_cast<std::uint64_t>(
          std::clamp(std::round(value_at(parameter, coordinate) - spec.min_value), 0.0, last));
    case ParameterType::kCategorical:
      return static_cast<std::uint64_t>(std::clamp(std::floor(coordinate * (last + 1)), 0.0, last));
    case ParameterType::kDiscrete: {
      std::uint64_t best = 0;
      double least = std::numeric_limits<double>::infinity();
      for (std::uint64_t choice = 0; choice < spec.discrete_values.size(); ++choice) {
        const double distance = std::abs(coordinate_of_choice(parameter, choice) - coordinate);
        if (distance < least) {
          least = distance;
          best = choice;
        }
      }
      return best;
    }
    case ParameterType::kDouble:
      break;
  }
  return 0;
}

Point SearchSpace::snap(Point point) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (!is_active(i, point)) {
      point[i] = kInactive;
      continue;
    }
    if (std::isnan(point[i])) point[i] = 0.5;
    point[i] = is_continuous(i) ? std::clamp(point[i], 0.0, 1.0)
                                : coordinate_of_choice(i, nearest_choice(i, point[i]));
  }
  return point;
}

Point SearchSpace::from_uniform(Point uniform) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (parameters_[i].type != ParameterType::kDiscrete) continue;
    const auto count = static_cast<double>(choices(i));
    uniform[i] = coordinate_of_choice(
        i, static_cast<std::uint64_t>(std::clamp(std::floor(uniform[i] * count), 0.0, count - 1)));
  }
  return snap(std::move(uniform));
}

double SearchSpace::scaled(std::size_t parameter, double coordinate, double factor) const {
  const ParameterSpec& spec = parameters_[parameter];
  const auto within = [&](double value) {
    return std::clamp(value, spec.min_value, spec.max_value);
  };
  if (is_continuous(parameter)) {
    const double scaled =
        coordinate_of(parameter, within(value_at(parameter, coordinate) * factor));
    return std::clamp(scaled, 0.0, 1.0);
  }
  const std::uint64_t choice = nearest_choice(parameter, coordinate);
  if (spec.type == ParameterType::kInteger) {
    const double value = spec.min_value + static_cast<double>(choice);
    double next = std::round(value * factor);
    if (next == value) next += (factor > 1) == (value >= 0) ? 1 : -1;
    return coordinate_of(parameter, within(next));
  }
  if (factor > 1) {
    return coordinate_of_choice(parameter, std::min(choice + 1, choices(parameter) - 1));
  }
  return coordinate_of_choice(parameter, choice > 0 ? choice - 1 : 0);
}

Values SearchSpace::values_of(const Point& point) const {
  Values values;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!std::isnan(point[i])) values[parameters_[i].name] = text_at(i, point[i]);
  }
  return values;
}

Point SearchSpace::point_of(const Values& values) const {
  Point point(size(), kInactive);
  for (std::size_t i = 0; i < size(); ++i) {
    if (!is_active(i, point)) continue;
    const auto found = values.find(parameters_[i].name);
    if (found == values.end()) {
      throw InvalidArgument("parameter {}: the trial has no value of it", parameters_[i].name);
    }
    point[i] = coordinate_of_text(i, found->second);
  }
  return point;
}

double SearchSpace::value_at(std::size_t parameter, double coordinate) const {
  const ParameterSpec& spec = parameters_[parameter];
  const double value = value_of(coordinate, range_of(spec), spec.scale);
  return std::clamp(value, spec.min_value, spec.max_value);
}

double SearchSpace::coordinate_of(std::size_t parameter, double value) const {
  const ParameterSpec& spec = parameters_[parameter];
  return unit_of(value, range_of(spec), spec.scale);
}

std::string SearchSpace::text_at(std::size_t parameter, double coordinate) const {
  const ParameterSpec& spec = parameters_[parameter];
  switch (spec.type) {
    case ParameterType::kInteger:
      return value_text(spec.min_value +
                        static_cast<double>(nearest_choice(parameter, coordinate)));
    case ParameterType::kCategorical:
      return spec.categorical_values[nearest_choice(parameter, coordinate)];
    case ParameterType::kDiscrete:
      return value_text(spec.discrete_values[nearest_choice(parameter, coordinate)]);
    case ParameterType::kDouble:
      break;
  }
  return value_text(value_at(parameter, coordinate));
}

double SearchSpace::coordinate_of_text(std::size_t parameter, const std::string& text) const {
  const ParameterSpec& spec = parameters_[parameter];
  if (is_categorical(parameter)) {
    const auto& all = spec.categorical_values;
    const auto found = std::find(all.begin(), all.end(), text);
    if (found != all.end()) {
      return coordinate_of_choice(parameter, static_cast<std::uint64_t>(found - all.begin()));
    }
    throw InvalidArgument("parameter {}: no such category: \"{}\"", spec.name, printable(text));
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Negated, so that NaN is refused too.
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= spec.min_value && value <= spec.max_value)) {
    throw InvalidArgument("parameter {}: no number from {} to {}: \"{}\"", spec.name,
                          value_text(spec.min_value), value_text(spec.max_value), printable(text));
  }
  const double coordinate = std::clamp(coordinate_of(parameter, value), 0.0, 1.0);
  return is_continuous(parameter)
             ? coordinate
             : coordinate_of_choice(parameter, nearest_choice(parameter, coordinate));
}

bool SearchSpace::is_active(std::size_t parameter, const Point& point) const {
  const auto& condition = parameters_[parameter].condition;
  if (!condition) return true;
  if (std::isnan(point[condition->parent])) return false;
  const std::string value = text_at(condition->parent, point[condition->parent]);
  return std::find(condition->values.begin(), condition->values.end(), value) !=
         condition->values.end();
}

}  // namespace muster::tuning
