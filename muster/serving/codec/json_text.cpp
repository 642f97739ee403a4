#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "muster/serving/codec/json_text_internal.h"

namespace muster::serving {
namespace {

// More than any number takes.
constexpr std::size_t kMostNumberBytes = 64;

bool needs_no_escape(char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; }

// fmt is as fast as std::to_chars, whose layout is another.
template <typename T>
void append_shortest_of(T value, std::string& out) {
  char text[kMostNumberBytes];
  const char* const end = fmt::format_to(text, FMT_COMPILE("{}"), value);
  const std::string_view digits(text, static_cast<std::size_t>(end - text));
  out += digits;
  if (digits.find_first_of(".e") == digits.npos) out += ".0";
}

}  // namespace

void append_shortest(double value, std::string& out) { append_shortest_of(value, out); }
void append_shortest(float value, std::string& out) { append_shortest_of(value, out); }

bool append_quoted(std::string_view text, std::string& out) {
  // The common case, many times faster than the library.
  if (std::ranges::all_of(text, needs_no_escape)) {
    out += '"';
    out += text;
    out += '"';
    return true;
  }
  try {
    out += nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace muster::serving
