#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "muster/base/error.h"
#include "muster/data/weights/json_scanner_internal.h"

namespace muster {
namespace {

constexpr int kMostDepth = 64;

void append_as_utf8(std::uint32_t code, std::string& out) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

}  // namespace

void JsonScanner::fail(std::string_view problem) const {
  throw DataLoss("{}: bad {} at offset {}: {}", file_, what_, offset_ + at_, problem);
}

void JsonScanner::skip_blanks() {
  at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
}

bool JsonScanner::accept(char wanted) {
  skip_blanks();
  if (at_ == text_.size() || text_[at_] != wanted) return false;
  ++at_;
  return true;
}

void JsonScanner::expect(char wanted) {
  if (!accept(wanted)) fail(fmt::format("'{}' was expected", wanted));
}

std::uint32_t JsonScanner::hex4() {
  std::uint32_t code = 0;
  if (text_.size() - at_ < 4) fail("an escape that does not end");
  const char* const begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, begin + 4, code, 16);
  if (error != std::errc() || end != begin + 4) fail("an escape of other than four hex digits");
  at_ += 4;
  return code;
}

void JsonScanner::escape(std::string& out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (at_ == text_.size()) fail("a string that does not end");
  const char letter = text_[at_++];
  if (const auto found = kLetters.find(letter); found != kLetters.npos) {
    out += kMeanings[found];
    return;
  }
  if (letter != 'u') fail("an unknown escape");
  std::uint32_t code = hex4();
  if (code >= 0xD800 && code < 0xDC00) {
    if (!text_.substr(at_).starts_with("\\u")) fail("half a surrogate pair");
    at_ += 2;
    const std::uint32_t low = hex4();
    if (low < 0xDC00 || low >= 0xE000) fail("half a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code < 0xE000) {
    fail("half a surrogate pair");
  }
  append_as_utf8(code, out);
}

std::string JsonScanner::string() {
  expect('"');
  std::string out;
  for (;;) {
    const std::size_t end = text_.find_first_of("\"\\", at_);
    if (end == text_.npos) fail("a string that does not end");
    out += text_.substr(at_, end - at_);
    at_ = end + 1;
    if (text_[end] == '"') return out;
    escape(out);
  }
}

std::int64_t JsonScanner::integer() {
  skip_blanks();
  std::int64_t value = 0;
  const char* const begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc() || *begin == '-') fail("a number from 0 to 2^63 - 1 was expected");
  at_ += static_cast<std::size_t>(end - begin);
  return value;
}

void JsonScanner::skip_value(int depth) {
  if (depth > kMostDepth) fail("nested too deeply");
  skip_blanks();
  const char first = at_ < text_.size() ? text_[at_] : '\0';
  if (first == '{') {
    object([&](const std::string&) { skip_value(depth + 1); });
  } else if (first == '[') {
    array([&] { skip_value(depth + 1); });
  } else if (first == '"') {
    string();
  } else {
    const std::size_t end = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    if (end == at_) fail("a value was expected");
    at_ = end;
  }
}

void JsonScanner::expect_end() {
  skip_blanks();
  if (at_ != text_.size()) fail("text after the end");
}

}  // namespace muster
