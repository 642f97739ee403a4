#include "muster/base/printable.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>

namespace muster {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// The bytes of the UTF-8 character at the front, and its code; 0 bytes where none begins.
struct Character {
  std::size_t bytes = 0;
  std::uint32_t code = 0;
};

Character first_character(std::string_view text) {
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return {1, first};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes > text.size()) return {};
  std::uint32_t code = first & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte_at(text, i) & 0xC0U) != 0x80U) return {};
    code = code << 6 | (byte_at(text, i) & 0x3FU);
  }
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[bytes] || code > 0x10FFFF || is_surrogate) return {};
  return {bytes, code};
}

bool is_harmless(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code <= 0x9F)) return false;
  const bool turns = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return !turns && code != 0xFEFF;
}

std::string spelled_out(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [bytes, code] = first_character(text);
    const std::size_t count = bytes == 0 ? 1 : bytes;
    const bool is_kept = kept.find(text.front()) != std::string_view::npos;
    if (is_kept || (bytes != 0 && is_harmless(code))) {
      out += text.substr(0, count);
    } else {
      for (std::size_t i = 0; i < count; ++i) out += fmt::format("\\x{:02x}", byte_at(text, i));
    }
    text.remove_prefix(count);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return spelled_out(text, "\n\t"); }

std::string printable_line(std::string_view text) { return spelled_out(text, ""); }

}  // namespace muster
