#include <fmt/core.h>

#include <limits>
#include <string>

#include "muster/base/error.h"
#include "muster/serving/codec/json.h"

namespace muster::serving {
namespace {

using nlohmann::json;

// The key of the object that stands for a number that JSON has no word for. No input has such a
// name.
constexpr const char* kSpecialKey = "\x01number";
constexpr const char* kBase64Key = "b64";
constexpr std::size_t kMostShown = 40;
constexpr std::size_t kMostMessageBytes = 300;

// How a number that JSON has no word for may be spelt, and its word here.
struct SpecialWord {
  std::string_view spelt;
  std::string_view word;
};

constexpr SpecialWord kSpecialWords[] = {
    {"NaN", "NaN"},  {"Infinity", "Infinity"},   {"Inf", "Infinity"},
    {"-NaN", "NaN"}, {"-Infinity", "-Infinity"}, {"-Inf", "-Infinity"},
};

const SpecialWord* special_word_at(std::string_view text) {
  for (const SpecialWord& word : kSpecialWords) {
    if (text.starts_with(word.spelt)) return &word;
  }
  return nullptr;
}

// The same text with objects instead of the special numbers outside of strings.
std::string with_special_numbers(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const SpecialWord* const word = in_string ? nullptr : special_word_at(text.substr(i));
    if (word != nullptr) {
      out += fmt::format(R"({{"\u0001number":"{}"}})", word->word);
      i += word->spelt.size();
      continue;
    }
    const std::size_t length = in_string && text[i] == '\\' && i + 1 < text.size() ? 2 : 1;
    if (text[i] == '"') in_string = !in_string;
    out += text.substr(i, length);
    i += length;
  }
  return out;
}

// Deeply nested values take a stack frame a level in code that walks them later.
void check_depth(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostJsonDepth) {
        throw InvalidArgument("lists and objects are nested deeper than {}", kMostJsonDepth);
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
}

// Without the library's own name for the error.
std::string_view message_of(const json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  const bool has_name = text.starts_with('[') && end != std::string_view::npos;
  // It also quotes the last token, which may be as long as the text.
  return text.substr(has_name ? end + 2 : 0, kMostMessageBytes);
}

const std::string* only_text(const json& value, const char* key) {
  if (!value.is_object() || value.size() != 1) return nullptr;
  const auto found = value.find(key);
  return found == value.end() ? nullptr : found->get_ptr<const std::string*>();
}

}  // namespace

json parse_json(std::string_view text) {
  // The library takes it for the end, and what follows for nothing.
  if (const auto zero = text.find('\0'); zero != text.npos) {
    throw InvalidArgument("byte {} is zero, and JSON has no such character", zero + 1);
  }
  check_depth(text);
  try {
    const bool special = text.find("NaN") != text.npos || text.find("Inf") != text.npos;
    return special ? json::parse(with_special_numbers(text)) : json::parse(text);
  } catch (const json::exception& error) {
    throw JsonSyntaxError("{}", message_of(error));
  }
}

const std::string* special_number(const json& value) { return only_text(value, kSpecialKey); }

std::optional<double> special_double(const json& value) {
  const std::string* word = special_number(value);
  if (word == nullptr) return std::nullopt;
  if (*word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return *word == "Infinity" ? infinity : -infinity;
}

const std::string* base64_text(const json& value) { return only_text(value, kBase64Key); }

const char* json_type_of(const json& value) {
  if (special_number(value) != nullptr) return "Number";
  if (value.is_null()) return "Null";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_object()) return "Object";
  if (value.is_array()) return "Array";
  if (value.is_string()) return "String";
  return "Number";
}

std::string describe(const json& value) {
  if (value.is_array()) return "a list";
  if (const std::string* word = special_number(value)) return *word;
  if (value.is_object()) return "an object";
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return value.is_string() ? "the string " + text : text;
}

}  // namespace muster::serving
