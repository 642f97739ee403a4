#include "muster/orchestration/tuning/parameter_reader_internal.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/printable.h"

namespace muster::tuning {
namespace {

constexpr Word<ParameterType> kTypes[] = {{"DOUBLE", ParameterType::kDouble},
                                          {"INTEGER", ParameterType::kInteger},
                                          {"CATEGORICAL", ParameterType::kCategorical},
                                          {"DISCRETE", ParameterType::kDiscrete}};
constexpr Word<Scale> kScales[] = {{"NONE", Scale::kLinear},
                                   {"SCALE_TYPE_UNSPECIFIED", Scale::kLinear},
                                   {"UNIT_LINEAR_SCALE", Scale::kLinear},
                                   {"UNIT_LOG_SCALE", Scale::kLog},
                                   {"UNIT_REVERSE_LOG_SCALE", Scale::kReverseLog}};

// The fields of one parameter, before they are checked.
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
      throw InvalidArgument("parameter {}: duplicate categoricalValue \"{}\"", spec.name,
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

}  // namespace

std::vector<ParameterSpec> read_parameters(const Field& list) {
  return ParameterReader().read(list);
}

}  // namespace muster::tuning
