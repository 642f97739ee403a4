#include "muster/data/text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <limits>
#include <memory>

#include "muster/base/error.h"
#include "muster/data/text/unicode_internal.h"

namespace muster {
namespace {

struct FreeMemory {
  void operator()(utf8proc_uint8_t* memory) const { std::free(memory); }  // NOLINT: C's memory
};

utf8proc_option_t options_of(NormalForm form) {
  switch (form) {
    case NormalForm::kNfc:
      return UTF8PROC_COMPOSE;
    case NormalForm::kNfd:
      return UTF8PROC_DECOMPOSE;
    case NormalForm::kNfkc:
      return static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case NormalForm::kNfkd:
      break;
  }
  return static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
}

bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char byte : text) all |= static_cast<unsigned char>(byte);
  return all < 0x80;
}

// Bytes of the code point at `at`, or 0 where there is none.
std::size_t code_point_bytes(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() - at < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and numbers above 10FFFF.
  const unsigned char second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return bytes;
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = code_point_bytes(text, at);
    if (bytes == 0) return at;
    at += bytes;
  }
  return {};
}

void require_utf8(std::string_view text) {
  if (const auto at = first_invalid_utf8(text)) {
    throw InvalidArgument("the text is not UTF-8: byte 0x{:02x} at offset {}",
                          static_cast<unsigned char>(text[*at]), *at);
  }
}

std::string normalised(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  require_utf8(text);
  utf8proc_uint8_t* memory = nullptr;
  const auto bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &memory, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, FreeMemory> owner(memory);
  if (bytes < 0) {
    throw ResourceExhausted("{} bytes of text could not be normalised: {}", text.size(),
                            utf8proc_errmsg(bytes));
  }
  return {reinterpret_cast<const char*>(memory), static_cast<std::size_t>(bytes)};
}

std::string lower_case(std::string_view text) {
  require_utf8(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    internal::append_lower_case(internal::next_code_point(text, at), out);
  }
  return out;
}

namespace internal {

CodePoint next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&] { return static_cast<unsigned char>(text[at++]); };
  const CodePoint first = byte();
  if (first < 0x80) return first;
  const auto more = [&](CodePoint high) { return high << 6 | (byte() & 0x3f); };
  if (first < 0xe0) return more(first & 0x1f);
  if (first < 0xf0) return more(more(first & 0x0f));
  return more(more(more(first & 0x07)));
}

void append_code_point(CodePoint point, std::string& out) {
  if (point < 0x80) {
    out.push_back(static_cast<char>(point));
    return;
  }
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(point, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

CharacterKind kind_of(CodePoint point) {
  switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterKind::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterKind::kNumber;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return CharacterKind::kPunctuation;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterKind::kSeparator;
    case UTF8PROC_CATEGORY_MN:
      return CharacterKind::kMark;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
      return CharacterKind::kControl;
    default:
      return CharacterKind::kOther;
  }
}

bool is_white_space(CodePoint point) {
  if (point < 0x80) return point == ' ' || (point >= 0x09 && point <= 0x0d);
  return point == 0x85 || kind_of(point) == CharacterKind::kSeparator;
}

void append_lower_case(CodePoint point, std::string& out) {
  if (point < 0x80) {
    out.push_back(static_cast<char>(point >= 'A' && point <= 'Z' ? point + ('a' - 'A') : point));
    return;
  }
  append_code_point(utf8proc_tolower(point), out);
  if (point == 0x130) append_code_point(0x307, out);
}

}  // namespace internal
}  // namespace muster
