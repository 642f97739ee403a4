#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/orchestration/jobs/yaml_internal.h"

namespace muster::jobs {
namespace {

[[noreturn]] void refuse(const YamlValue& value, std::string_view name, const char* expected) {
  throw InvalidArgument("{}: {} must be {}{}", value.place, name, expected,
                        value.kind == YamlValue::Kind::kScalar
                            ? fmt::format(": \"{}\"", printable(value.text))
                            : std::string());
}

template <typename Number>
bool parse_number(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

const YamlValue* YamlValue::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  return found == entries.end() ? nullptr : &found->second;
}

std::string YamlValue::string(std::string_view name) const {
  if (kind != Kind::kScalar) refuse(*this, name, "a text");
  return text;
}

std::int64_t YamlValue::integer(std::string_view name) const {
  std::int64_t number = 0;
  if (kind != Kind::kScalar || !parse_number(text, number)) refuse(*this, name, "a whole number");
  return number;
}

double YamlValue::number(std::string_view name) const {
  double value = 0;
  if (kind != Kind::kScalar || !parse_number(text, value) || !std::isfinite(value)) {
    refuse(*this, name, "a number");
  }
  return value;
}

bool YamlValue::boolean(std::string_view name) const {
  const bool is_true = text == "true" || text == "True" || text == "TRUE";
  const bool is_false = text == "false" || text == "False" || text == "FALSE";
  if (kind != Kind::kScalar || (!is_true && !is_false)) refuse(*this, name, "true or false");
  return is_true;
}

const std::vector<YamlValue>& YamlValue::list(std::string_view name) const {
  if (kind != Kind::kList) refuse(*this, name, "a list");
  return items;
}

const std::vector<std::pair<std::string, YamlValue>>& YamlValue::map(std::string_view name) const {
  if (kind != Kind::kMap) refuse(*this, name, "a map of names to values");
  return entries;
}

YamlValue read_yaml(const Path& path) {
  return parse_yaml(read_file(path, kMostYamlBytes), path.string());
}

}  // namespace muster::jobs
