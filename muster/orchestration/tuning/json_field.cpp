#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "muster/base/printable.h"
#include "muster/base/suggestion.h"
#include "muster/orchestration/tuning/hyperparameter_spec.h"
#include "muster/orchestration/tuning/json_field_internal.h"

namespace muster::tuning {

std::string Field::text() const {
  if (!value_.is_string()) refuse("a text");
  return value_.get<std::string>();
}

double Field::number() const {
  double number = value_.is_number() ? value_.get<double>() : std::nan("");
  if (value_.is_string()) {
    const std::string& text = value_.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) refuse("a number");
  }
  if (!std::isfinite(number)) refuse("a number");
  return number;
}

double Field::number(double least, double most) const {
  const double value = number();
  if (value < least || value > most) {
    refuse(fmt::format("a number from {} to {}", least, most));
  }
  return value;
}

std::int64_t Field::integer(std::int64_t least, std::int64_t most) const {
  const double value = number();
  if (value != std::floor(value) || value < static_cast<double>(least) ||
      value > static_cast<double>(most)) {
    refuse(fmt::format("a whole number from {} to {}", least, most));
  }
  return static_cast<std::int64_t>(value);
}

bool Field::boolean() const {
  if (!value_.is_boolean()) refuse("true or false");
  return value_.get<bool>();
}

std::string Field::category() const {
  if (value_.is_number_integer()) return std::to_string(value_.get<std::int64_t>());
  if (value_.is_number()) return value_text(value_.get<double>());
  if (value_.is_boolean()) return value_.get<bool>() ? "true" : "false";
  return text();
}

std::vector<Field> Field::items() const {
  if (!value_.is_array()) refuse("a list");
  std::vector<Field> items;
  items.reserve(value_.size());
  for (std::size_t i = 0; i < value_.size(); ++i) {
    items.emplace_back(value_[i], fmt::format("{}[{}]", name_, i));
  }
  return items;
}

std::vector<std::pair<std::string, Field>> Field::entries() const {
  if (!value_.is_object()) refuse("a map of names to values");
  std::vector<std::pair<std::string, Field>> entries;
  for (const auto& [key, value] : value_.items()) {
    entries.emplace_back(key, Field(value, fmt::format("{}.{}", name_, key)));
  }
  return entries;
}

void Field::refuse(const std::string& expected) const {
  throw InvalidArgument("{} must be {}: {}", name_, expected,
                        printable(value_.dump().substr(0, 80)));
}

void Field::refuse_all_but(const std::vector<std::string>& words) const {
  refuse(fmt::format("one of {}", fmt::join(words, ", ")));
}

void Field::unknown(const std::vector<std::string>& known) const {
  const std::string key = name_.substr(name_.rfind('.') + 1);
  throw InvalidArgument("{} is no field that is known{}", name_, did_you_mean(key, known));
}

}  // namespace muster::tuning
