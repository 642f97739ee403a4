#include <fmt/core.h>

#include <string>

#include "muster/base/error.h"
#include "muster/serving/json_internal.h"

namespace muster::serving {
namespace {

using nlohmann::json;

// The key of the object that stands for a number that JSON has no word for. No input has such a
// name.
constexpr const char* kSpecialKey = "\x01number";
constexpr const char* kBase64Key = "b64";
constexpr std::size_t kMostShown = 40;

std::string_view special_word_at(std::string_view text) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (text.starts_with(word)) return word;
  }
  return {};
}

// The same text with objects in the place of the special numbers outside of strings.
std::string with_special_numbers(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view word = in_string ? std::string_view() : special_word_at(text.substr(i));
    if (!word.empty()) {
      out += fmt::format(R"({{"\u0001number":"{}"}})", word);
      i += word.size();
      continue;
    }
    const std::size_t length = in_string && text[i] == '\\' && i + 1 < text.size() ? 2 : 1;
    if (text[i] == '"') in_string = !in_string;
    out += text.substr(i, length);
    i += length;
  }
  return out;
}

// Without the library's own name for the error.
std::string_view message_of(const json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return text.starts_with('[') && end != std::string_view::npos ? text.substr(end + 2) : text;
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
  try {
    const bool special = text.find("NaN") != text.npos || text.find("Infinity") != text.npos;
    return special ? json::parse(with_special_numbers(text)) : json::parse(text);
  } catch (const json::exception& error) {
    throw InvalidArgument("{}", message_of(error));
  }
}

const std::string* special_number(const json& value) { return only_text(value, kSpecialKey); }

const std::string* base64_text(const json& value) { return only_text(value, kBase64Key); }

std::string describe(const json& value) {
  if (value.is_array()) return "a list";
  if (const std::string* word = special_number(value)) return *word;
  if (value.is_object()) return "an object";
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return value.is_string() ? "the string " + text : text;
}

}  // namespace muster::serving
