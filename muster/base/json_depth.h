#pragma once

#include <cstddef>
#include <string_view>

namespace muster {

/// Greatest depth of files of ours, with room.
inline constexpr std::size_t kMostJsonFileDepth = 64;

/// Whether lists and objects are nested deeper than `most`, as a look at the text tells. Ask it of
/// files that others may have written, before they are parsed: the time that a parser takes
/// for a text of nothing but brackets grows with the square of its length.
inline bool is_json_deeper_than(std::size_t most, std::string_view text) {
  std::size_t depth = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string) {
      if (c == '\\') ++i;
      is_in_string = c != '"';
    } else if (c == '"') {
      is_in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace muster
