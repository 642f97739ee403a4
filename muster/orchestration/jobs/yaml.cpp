// The one unit that knows yaml-cpp; no_yaml.cpp stands in where it is not installed.
#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json_depth.h"
#include "muster/base/printable.h"
#include "muster/orchestration/jobs/yaml_internal.h"

namespace muster::jobs {
namespace {

// Aliases may stand for the same value again and again: what they make of a file is limited, in
// values and in bytes of their texts.
constexpr std::size_t kMostYamlValues = 20'000;
constexpr std::size_t kMostTextBytes = 4 * kMostYamlBytes;
// A job is kept as JSON, in two objects of its own.
constexpr std::size_t kMostYamlDepth = kMostJsonFileDepth - 2;

struct Item {
  enum class Kind { kNull, kScalar, kList, kMap, kEnd, kAlias };

  Kind kind = Kind::kNull;
  int line = 0;
  std::string text{};
  bool is_quoted = false;
  /// Item that an alias stands for.
  std::size_t target = 0;
};

std::string place_in(std::string_view name, int line) {
  return line > 0 ? fmt::format("{}:{}", name, line) : std::string(name);
}

// The one document of a text, item by item. An alias stands for a whole value before it, never for
// one that holds it.
class Recorder final : public YAML::EventHandler {
 public:
  explicit Recorder(std::string_view name) : name_(name) {}

  std::vector<Item> take_items() { return std::move(items_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {
    if (++documents_ > 1) throw InvalidArgument("{}: holds more than one document", name_);
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add({.kind = Item::Kind::kNull, .line = line_of(mark)}, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const std::size_t target = anchors_.at(anchor);
    if (std::find(open_.begin(), open_.end(), target) != open_.end()) {
      throw InvalidArgument(
          "{}: an alias stands for a value that holds it, as in &x {{a: *x}}: write out what is "
          "meant",
          place_in(name_, line_of(mark)));
    }
    add({.kind = Item::Kind::kAlias, .line = line_of(mark), .target = target}, 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    add({.kind = Item::Kind::kScalar,
         .line = line_of(mark),
         .text = value,
         .is_quoted = tag == "!"},
        anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    begin({.kind = Item::Kind::kList, .line = line_of(mark)}, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    begin({.kind = Item::Kind::kMap, .line = line_of(mark)}, anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapEnd() override { end(); }

 private:
  static int line_of(const YAML::Mark& mark) { return mark.is_null() ? 0 : mark.line + 1; }

  void add(Item item, YAML::anchor_t anchor) {
    if (items_.size() >= 2 * kMostYamlValues) {
      throw InvalidArgument("{}: more than {} values", place_in(name_, item.line), kMostYamlValues);
    }
    if (anchor != 0) anchors_[anchor] = items_.size();
    items_.push_back(std::move(item));
  }
  void begin(Item item, YAML::anchor_t anchor) {
    add(std::move(item), anchor);
    open_.push_back(items_.size() - 1);
  }
  void end() {
    items_.push_back({.kind = Item::Kind::kEnd});
    open_.pop_back();
  }

  const std::string_view name_;
  int documents_ = 0;
  std::vector<Item> items_;
  // The lists and maps that hold what comes next, outermost first.
  std::vector<std::size_t> open_;
  std::map<YAML::anchor_t, std::size_t> anchors_;
};

class YamlBuilder {
 public:
  YamlBuilder(std::vector<Item> items, std::string_view name)
      : items_(std::move(items)), name_(name) {}

  YamlValue build() {
    std::size_t next = 0;
    return build(next, 0);
  }

 private:
  // `next` is moved after the value.
  YamlValue build(std::size_t& next, std::size_t depth) {
    const Item& item = items_[next++];
    if (item.kind == Item::Kind::kAlias) {
      std::size_t target = item.target;
      return build(target, depth);
    }
    YamlValue value{.place = place_in(name_, item.line)};
    count(item, value.place, depth);
    switch (item.kind) {
      case Item::Kind::kNull:
      case Item::Kind::kEnd:
      case Item::Kind::kAlias:
        break;
      case Item::Kind::kScalar:
        value.kind = YamlValue::Kind::kScalar;
        value.text = item.text;
        value.is_quoted = item.is_quoted;
        break;
      case Item::Kind::kList:
        value.kind = YamlValue::Kind::kList;
        while (!is_end(next)) value.items.push_back(build(next, depth + 1));
        break;
      case Item::Kind::kMap:
        value.kind = YamlValue::Kind::kMap;
        while (!is_end(next)) add_entry(next, depth + 1, value);
        break;
    }
    return value;
  }

  bool is_end(std::size_t& next) const {
    if (items_[next].kind != Item::Kind::kEnd) return false;
    ++next;
    return true;
  }

  void count(const Item& item, const std::string& place, std::size_t depth) {
    if (depth >= kMostYamlDepth) {
      throw InvalidArgument("{}: lists and maps are nested deeper than {}", place, kMostYamlDepth);
    }
    if (++values_ > kMostYamlValues) {
      throw InvalidArgument("{}: more than {} values, counted as often as aliases repeat them",
                            place, kMostYamlValues);
    }
    text_bytes_ += item.text.size();
    if (text_bytes_ > kMostTextBytes) {
      throw InvalidArgument("{}: more than {} bytes of text, counted as often as aliases repeat it",
                            place, kMostTextBytes);
    }
  }

  void add_entry(std::size_t& next, std::size_t depth, YamlValue& map) {
    YamlValue key = build(next, depth);
    if (key.kind != YamlValue::Kind::kScalar) {
      throw InvalidArgument("{}: a key must be a word", key.place);
    }
    if (map.find(key.text) != nullptr) {
      throw InvalidArgument("{}: duplicate key \"{}\"", key.place, printable(key.text));
    }
    YamlValue value = build(next, depth);
    // An empty value has no place of its own.
    if (value.kind == YamlValue::Kind::kNull) value.place = key.place;
    map.entries.emplace_back(std::move(key.text), std::move(value));
  }

  const std::vector<Item> items_;
  const std::string_view name_;
  std::size_t values_ = 0;
  std::size_t text_bytes_ = 0;
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
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Recorder recorder(name);
    // One after the other as they are read: for some texts yaml-cpp makes documents without end.
    while (parser.HandleNextDocument(recorder)) continue;
    std::vector<Item> items = recorder.take_items();
    return items.empty() ? YamlValue{.place = std::string(name)}
                         : YamlBuilder(std::move(items), name).build();
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
