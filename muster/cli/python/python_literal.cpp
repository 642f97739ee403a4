#include "muster/cli/python/python_literal.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"

namespace muster::python {
namespace {

constexpr int kMostDepth = 64;
constexpr std::int64_t kMostElements = 10'000'000;
constexpr const char* kTooMany = "more than 10,000,000 elements; write them to a .npy file";

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::string read() {
    std::string out = value(0);
    skip_blanks();
    if (at_ != text_.size()) fail("text behind the value");
    return out;
  }

 private:
  std::string value(int depth) {
    if (depth > kMostDepth) fail("brackets go too deep");
    skip_blanks();
    if (accept('[')) return "[" + elements(']', depth) + "]";
    if (accept('(')) return tuple(depth);
    if (accept('{')) return dictionary(depth);
    if (at_string()) return string();
    const char c = peek();
    if (is_digit(c) || c == '.' || c == '-' || c == '+') return number();
    return named(depth);
  }

  // The elements up to the closing bracket, which is taken. `commas` counts those between and
  // after them.
  std::string elements(char end, int depth, int* commas = nullptr) {
    std::string out;
    while (!accept(end)) {
      if (!out.empty()) out += ", ";
      out += value(depth + 1);
      if (!accept(',')) {
        expect(end);
        break;
      }
      if (commas != nullptr) ++*commas;
    }
    return out;
  }

  // "(1)" is 1, "(1,)" a list of it.
  std::string tuple(int depth) {
    int commas = 0;
    const std::string inside = elements(')', depth, &commas);
    return commas == 0 && !inside.empty() ? inside : "[" + inside + "]";
  }

  std::string dictionary(int depth) {
    std::string out;
    while (!accept('}')) {
      skip_blanks();
      if (!at_string()) fail("a key in quotes was expected");
      out += (out.empty() ? "" : ", ") + string();
      expect(':');
      out += ": " + value(depth + 1);
      if (accept(',')) continue;
      expect('}');
      break;
    }
    return "{" + out + "}";
  }

  bool at_string() const {
    const char c = peek();
    const bool prefixed = (c == 'b' || c == 'u' || c == 'B' || c == 'U') && is_quote(peek(1));
    return is_quote(c) || prefixed;
  }

  std::string string() {
    const bool is_bytes = peek() == 'b' || peek() == 'B';
    if (!is_quote(peek())) ++at_;
    const char quote = text_[at_++];
    std::string out;
    while (peek() != quote) {
      if (at_ >= text_.size()) fail("a string that does not end");
      if (peek() == '\\') {
        ++at_;
        out += escaped(is_bytes);
      } else {
        out += text_[at_++];
      }
    }
    ++at_;
    if (is_bytes) return "{\"b64\": \"" + base64_encode(out) + "\"}";
    try {
      return nlohmann::json(out).dump();
    } catch (const nlohmann::json::exception&) {
      fail("a string that is no UTF-8; write bytes as b'\\x00'");
    }
  }

  std::string escaped(bool is_bytes) {
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n':
        return "\n";
      case 'r':
        return "\r";
      case 't':
        return "\t";
      case '0':
        return std::string(1, '\0');
      case '\\':
      case '\'':
      case '"':
        return std::string(1, c);
      case 'x':
        return code(2, is_bytes);
      case 'u':
        if (!is_bytes) return code(4, is_bytes);
        [[fallthrough]];
      default:
        fail("an escape other than \\n \\r \\t \\0 \\\\ \\' \\\" \\x \\u");
    }
  }

  // A byte, or a character below U+10000 as UTF-8.
  std::string code(std::size_t digits, bool is_byte) {
    const std::string_view hex = text_.substr(std::min(at_, text_.size()), digits);
    unsigned number = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), number, 16);
    if (hex.size() != digits || error != std::errc() || end != hex.data() + digits) {
      fail("an escape without its digits");
    }
    at_ += digits;
    const auto put = [](unsigned byte) { return static_cast<char>(byte); };
    if (is_byte || number < 0x80) return {put(number)};
    if (number < 0x800) return {put(0xC0 | number >> 6), put(0x80 | (number & 0x3F))};
    return {put(0xE0 | number >> 12), put(0x80 | (number >> 6 & 0x3F)),
            put(0x80 | (number & 0x3F))};
  }

  std::string number() {
    const bool negative = peek() == '-';
    if (negative || peek() == '+') ++at_;
    if (std::isalpha(static_cast<unsigned char>(peek())) != 0) {
      const std::string out = named(0);
      if (out != "NaN" && out != "Infinity") fail("a number was expected behind the sign");
      return negative && out == "Infinity" ? "-Infinity" : out;
    }
    const std::size_t begin = at_;
    while (is_digit(peek())) ++at_;
    const bool is_whole = peek() != '.' && peek() != 'e' && peek() != 'E';
    if (is_whole) {
      const std::string_view digits = text_.substr(begin, at_ - begin);
      if (digits.empty()) fail("a number was expected");
      if (digits.size() > 1 && digits[0] == '0') fail("a whole number that begins with 0");
      return (negative ? "-" : "") + std::string(digits);
    }
    double real = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + begin, text_.data() + text_.size(), real);
    if (error != std::errc()) fail("a number that cannot be read");
    at_ = static_cast<std::size_t>(end - text_.data());
    return nlohmann::json(negative ? -real : real).dump();
  }

  std::string word() {
    const std::size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_' ||
           peek() == '.') {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string named(int depth) {
    const std::size_t begin = at_;
    std::string name = word();
    if (name == "True") return "true";
    if (name == "False") return "false";
    if (name == "None") return "null";
    if (name.starts_with("numpy.")) name = "np." + name.substr(6);
    if (name == "np.nan" || name == "np.NaN" || name == "nan") return "NaN";
    if (name == "np.inf" || name == "inf") return "Infinity";
    if (name == "np.array" || name == "np.ones" || name == "np.zeros" || name == "np.arange") {
      expect('(');
      if (name == "np.array") {
        std::string out = value(depth + 1);
        end_of_call();
        return out;
      }
      return name == "np.arange" ? range() : filled(name == "np.ones" ? "1" : "0");
    }
    at_ = begin;
    fail("neither a number, a string, a list nor np.array, np.ones, np.zeros, np.arange");
  }

  std::int64_t integer() {
    skip_blanks();
    std::int64_t out = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
    if (error != std::errc()) fail("a whole number was expected");
    at_ = static_cast<std::size_t>(end - text_.data());
    return out;
  }

  // "dtype=np.float32", "np.int64", "'int64'" or nothing: the model tells the type.
  void skip_type() {
    skip_word_or_string();
    if (accept('=')) skip_word_or_string();
  }

  void skip_word_or_string() {
    skip_blanks();
    at_string() ? string() : word();
  }

  void end_of_call() {
    if (accept(',')) skip_type();
    expect(')');
  }

  std::string filled(const char* element) {
    std::vector<std::int64_t> shape;
    const char closing = accept('(') ? ')' : accept('[') ? ']' : '\0';
    if (closing == '\0') {
      shape.push_back(integer());
    } else {
      while (!accept(closing)) {
        shape.push_back(integer());
        if (!accept(',')) {
          expect(closing);
          break;
        }
      }
    }
    end_of_call();
    std::int64_t count = 1;
    for (const std::int64_t size : shape) {
      if (size < 0) fail("a negative size");
      if (__builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count) ||
          count > kMostElements) {
        fail(kTooMany);
      }
    }
    std::string out = element;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      std::string list;
      for (std::int64_t i = 0; i < shape[axis]; ++i) list += (i == 0 ? "" : ", ") + out;
      out = "[" + list + "]";
    }
    return out;
  }

  // Parses a range of an end; of begin and end; of begin, end and step.
  std::string range() {
    std::vector<std::int64_t> given{integer()};
    bool more = accept(',');
    while (more && given.size() < 3 && at_number()) {
      given.push_back(integer());
      more = accept(',');
    }
    if (more) skip_type();
    expect(')');
    const std::int64_t begin = given.size() == 1 ? 0 : given[0];
    const std::int64_t end = given.size() == 1 ? given[0] : given[1];
    const std::int64_t step = given.size() == 3 ? given[2] : 1;
    if (step == 0) fail("a step of 0");
    const double count = std::ceil((static_cast<double>(end) - static_cast<double>(begin)) /
                                   static_cast<double>(step));
    if (count > static_cast<double>(kMostElements)) fail(kTooMany);
    std::string out;
    for (std::int64_t i = 0; static_cast<double>(i) < count; ++i) {
      out += (out.empty() ? "" : ", ") + std::to_string(begin + i * step);
    }
    return "[" + out + "]";
  }

  bool at_number() {
    skip_blanks();
    return is_digit(peek()) || peek() == '-';
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_quote(char c) { return c == '\'' || c == '"'; }

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  bool accept(char wanted) {
    skip_blanks();
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail(fmt::format("'{}' was expected", wanted));
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw InvalidArgument("at character {}: {}", at_ + 1, what);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string python_to_json(std::string_view text) { return Scanner(text).read(); }

}  // namespace muster::python
