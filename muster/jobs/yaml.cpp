// The one unit that knows yaml-cpp; no_yaml.cpp stands in where it is not installed.
#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/jobs/yaml_internal.h"

namespace muster::jobs {
namespace {

// Aliases may stand for the same value again and again.
constexpr std::size_t kMostYamlValues = 20'000;

class YamlBuilder {
 public:
  explicit YamlBuilder(std::string_view name) : name_(name) {}

  YamlValue build(const YAML::Node& node) {
    if (++values_ > kMostYamlValues) {
      throw InvalidArgument("{}: more than {} values", place_of(node), kMostYamlValues);
    }
    YamlValue value;
    value.place = place_of(node);
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
      case YAML::NodeType::Scalar:
        value.kind = YamlValue::Kind::kScalar;
        value.text = node.Scalar();
        value.is_quoted = node.Tag() == "!";
        break;
      case YAML::NodeType::Sequence:
        value.kind = YamlValue::Kind::kList;
        for (const auto& item : node) value.items.push_back(build(item));
        break;
      case YAML::NodeType::Map:
        value.kind = YamlValue::Kind::kMap;
        for (const auto& entry : node) add_entry(entry.first, entry.second, value);
        break;
    }
    return value;
  }

 private:
  std::string place_of(const YAML::Node& node) const {
    const YAML::Mark mark = node.Mark();
    return mark.is_null() ? name_ : fmt::format("{}:{}", name_, mark.line + 1);
  }

  void add_entry(const YAML::Node& key, const YAML::Node& node, YamlValue& map) {
    if (!key.IsScalar()) throw InvalidArgument("{}: a key must be a word", place_of(key));
    if (map.find(key.Scalar()) != nullptr) {
      throw InvalidArgument("{}: the key \"{}\" stands twice", place_of(key),
                            printable(key.Scalar()));
    }
    YamlValue value = build(node);
    // An empty value has no place of its own.
    if (value.kind == YamlValue::Kind::kNull) value.place = place_of(key);
    map.entries.emplace_back(key.Scalar(), std::move(value));
  }

  std::string name_;
  std::size_t values_ = 0;
};

// Whether some reader of YAML takes a text without quotes for a number, a date, a truth value or
// nothing.
bool reads_as_value(std::string_view text) {
  if (text.empty()) return true;
  const bool has_sign = text.front() == '-' || text.front() == '+';
  const char first = text[has_sign && text.size() > 1 ? 1 : 0];
  if ((first >= '0' && first <= '9') || first == '.') return true;
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kWords[] = {"true", "false", "yes", "no",   "on",
                                         "off",  "y",     "n",   "null", "~"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

void emit(const nlohmann::ordered_json& json, YAML::Emitter& out) {
  if (json.is_object()) {
    if (json.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, value] : json.items()) {
      out << YAML::Key << key << YAML::Value;
      emit(value, out);
    }
    out << YAML::EndMap;
  } else if (json.is_array()) {
    if (json.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const auto& value : json) emit(value, out);
    out << YAML::EndSeq;
  } else if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    if (reads_as_value(text)) out << YAML::SingleQuoted;
    out << text;
  } else {
    out << json.dump();
  }
}

}  // namespace

YamlValue parse_yaml(std::string_view text, std::string_view name) {
  if (text.size() > kMostYamlBytes) {
    throw InvalidArgument("{}: larger than {} bytes", name, kMostYamlBytes);
  }
  try {
    const auto documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) throw InvalidArgument("{}: holds more than one document", name);
    return documents.empty() ? YamlValue{.place = std::string(name)}
                             : YamlBuilder(name).build(documents.front());
  } catch (const YAML::Exception& error) {
    throw InvalidArgument("{}:{}: no YAML or JSON: {}", name, error.mark.line + 1,
                          printable(error.msg));
  }
}

std::string yaml_of_json(std::string_view json) {
  const auto value = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) throw InvalidArgument("no JSON");
  YAML::Emitter out;
  emit(value, out);
  return std::string(out.c_str()) + "\n";
}

}  // namespace muster::jobs
