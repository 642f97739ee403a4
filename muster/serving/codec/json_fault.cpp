#include "muster/serving/codec/json_fault_internal.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace muster::serving {
namespace {

/// Reads a text as RapidJSON does, and makes nothing of it. Its functions are false at the first
/// fault, which is then noted.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  bool read_document() {
    if (!read_value()) return false;
    skip_space();
    return at_ == text_.size() || fail("The document root must not be followed by other values.");
  }
  const JsonFault& fault() const { return fault_; }

 private:
  bool fail(std::string_view reason) { return fail(reason, at_); }
  bool fail(std::string_view reason, std::size_t offset) {
    fault_ = {reason, offset};
    return false;
  }

  // Zero at the end; no text that is scanned has one.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char wanted) {
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool at_digit() const { return peek() >= '0' && peek() <= '9'; }
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  bool read_value() {
    skip_space();
    switch (peek()) {
      case '{':
        return read_object();
      case '[':
        return read_array();
      case '"':
        return read_string();
      case 't':
        return read_word("true");
      case 'f':
        return read_word("false");
      case 'n':
        return read_word("null");
      default:
        return read_number();
    }
  }

  bool read_object() {
    take('{');
    skip_space();
    if (take('}')) return true;
    do {
      if (!read_member()) return false;
    } while (take(','));
    return take('}') || fail("Missing a comma or } after an object member.");
  }

  bool read_member() {
    skip_space();
    if (peek() != '"') return fail("Missing a name for object member.");
    if (!read_string()) return false;
    skip_space();
    if (!take(':')) return fail("Missing a colon after a name of object member.");
    if (!read_value()) return false;
    skip_space();
    return true;
  }

  bool read_array() {
    take('[');
    skip_space();
    if (take(']')) return true;
    do {
      if (!read_value()) return false;
      skip_space();
    } while (take(','));
    return take(']') || fail("Missing a comma or ] after an array element.");
  }

  bool read_word(std::string_view word) {
    for (const char c : word) {
      if (!take(c)) return fail("Invalid value.");
    }
    return true;
  }

  bool read_string() {
    take('"');
    while (!take('"')) {
      if (at_ == text_.size()) return fail("Missing a closing quotation mark in string.");
      if (static_cast<unsigned char>(peek()) < 0x20) return fail("Invalid encoding in string.");
      if (peek() != '\\') {
        ++at_;
      } else if (!read_escape()) {
        return false;
      }
    }
    return true;
  }

  bool read_escape() {
    const std::size_t begin = at_++;
    if (!take('u')) {
      if (std::string_view("\"\\/bfnrt").find(peek()) == std::string_view::npos) {
        return fail("Invalid escape character in string.", begin);
      }
      ++at_;
      return true;
    }
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    if (!read_hex(begin, first)) return false;
    if (first < 0xD800 || first > 0xDFFF) return true;
    if (first > 0xDBFF || !take('\\') || !take('u')) return fail_surrogate(begin);
    if (!read_hex(begin, second)) return false;
    return (second >= 0xDC00 && second <= 0xDFFF) || fail_surrogate(begin);
  }
  bool fail_surrogate(std::size_t escape) {
    return fail("The surrogate pair in string is invalid.", escape);
  }

  bool read_hex(std::size_t escape, std::uint32_t& code) {
    for (int i = 0; i < 4; ++i, ++at_) {
      const auto digit = std::string_view("0123456789abcdef0123456789ABCDEF").find(peek());
      if (digit == std::string_view::npos) {
        return fail("Incorrect hex digit after \\u escape in string.", escape);
      }
      code = code * 16 + static_cast<std::uint32_t>(digit % 16);
    }
    return true;
  }

  bool read_number() {
    const std::size_t begin = at_;
    take('-');
    if (peek() == 'N') return read_word("NaN");
    if (peek() == 'I') return read_word("Inf") && (peek() != 'i' || read_word("inity"));
    if (!at_digit()) return fail("Invalid value.");
    if (!take('0')) skip_digits();
    if (take('.') && !read_digits("Miss fraction part in number.")) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!read_digits("Miss exponent in number.")) return false;
    }
    const std::string number(text_.substr(begin, at_ - begin));
    return std::isfinite(std::strtod(number.c_str(), nullptr)) ||
           fail("Number too big to be stored in double.", begin);
  }

  void skip_digits() {
    while (at_digit()) ++at_;
  }
  bool read_digits(std::string_view reason) {
    if (!at_digit()) return fail(reason);
    skip_digits();
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  JsonFault fault_{};
};

}  // namespace

std::optional<JsonFault> find_json_fault(std::string_view text) {
  JsonScanner scanner(text);
  if (scanner.read_document()) return std::nullopt;
  return scanner.fault();
}

}  // namespace muster::serving
