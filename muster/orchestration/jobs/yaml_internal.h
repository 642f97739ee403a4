#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::jobs {

/// The most that a YAML file may have.
inline constexpr std::uint64_t kMostYamlBytes = std::uint64_t{1} << 20;

/// A value of a YAML or JSON file, and the line it stands in.
struct YamlValue {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  /// Text of a scalar, without quotes.
  std::string text{};
  bool is_quoted = false;
  std::vector<YamlValue> items{};
  std::vector<std::pair<std::string, YamlValue>> entries{};
  /// "config.yaml:3".
  std::string place{};

  /// The value of a key, or nothing.
  const YamlValue* find(std::string_view key) const;

  /// The value, converted to a type. Each throws InvalidArgument with place and `name` if it is of
  /// another type.
  std::string string(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::vector<YamlValue>& list(std::string_view name) const;
  const std::vector<std::pair<std::string, YamlValue>>& map(std::string_view name) const;
};

/// The one document of a text. `name` is what places say. Throws InvalidArgument with name and
/// line for what is no YAML, for a duplicate key, for an alias of a value that holds it,
/// and for more values, text or depth than a file of a job has. Throws Unimplemented where muster
/// was built without yaml-cpp.
YamlValue parse_yaml(std::string_view text, std::string_view name);
/// The same of a file. Throws NotFound.
YamlValue read_yaml(const Path& path);

/// JSON as YAML, in the order it has. Throws InvalidArgument for what is no JSON.
std::string yaml_of_json(std::string_view json);

}  // namespace muster::jobs
