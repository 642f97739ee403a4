#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

/// Reads JSON of a known form from left to right, without building a tree of it. Errors are
/// DataLoss and name the file and the offset.
class JsonScanner {
 public:
  /// `offset` is the place of the text in the file, `what` its name in errors: "header".
  JsonScanner(std::string_view text, std::uint64_t offset, std::string file, std::string_view what)
      : text_(text), offset_(offset), file_(std::move(file)), what_(what) {}

  /// Calls read_value(key) for every member of an object; it reads the value.
  template <typename ReadValue>
  void object(ReadValue read_value) {
    expect('{');
    if (accept('}')) return;
    do {
      std::string key = string();
      expect(':');
      read_value(std::move(key));
    } while (accept(','));
    expect('}');
  }

  /// Calls read_item() for every item of an array; it reads the item.
  template <typename ReadItem>
  void array(ReadItem read_item) {
    expect('[');
    if (accept(']')) return;
    do {
      read_item();
    } while (accept(','));
    expect(']');
  }

  /// A string in UTF-8, with its escapes resolved.
  std::string string();
  /// A number without sign, fraction and exponent, below 2^63.
  std::int64_t integer();
  /// Any value; lists and objects are nested at most 64 deep.
  void skip_value(int depth = 0);
  /// Nothing but blanks are left.
  void expect_end();

  [[noreturn]] void fail(std::string_view problem) const;

 private:
  void skip_blanks();
  bool accept(char wanted);
  void expect(char wanted);
  std::uint32_t hex4();
  void escape(std::string& out);

  std::string_view text_;
  std::uint64_t offset_;
  std::string file_;
  std::string_view what_;
  std::size_t at_ = 0;
};

}  // namespace muster
