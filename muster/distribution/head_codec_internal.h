#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "muster/base/error.h"

// The headers of messages between tasks: numbers as 8 bytes, little-endian, and strings behind
// their lengths. Tasks of a run are of one kind of machine and of one build; what they check is
// that a message is whole.
namespace muster::internal {

class HeaderWriter {
 public:
  void put(std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> shift & 0xff));
    }
  }
  void put(double value) {
    std::int64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    put(bits);
  }
  void put(std::string_view text) {
    put(static_cast<std::int64_t>(text.size()));
    bytes_ += text;
  }
  template <std::integral Integer>
  void put_number(Integer value) {
    put(static_cast<std::int64_t>(value));
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Throws DataLoss for a header that ends too early.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view bytes) : bytes_(bytes) {}

  std::int64_t number() {
    const std::string_view eight = take(8);
    std::uint64_t value = 0;
    for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(eight[i]);
    return static_cast<std::int64_t>(value);
  }
  double real() {
    const std::int64_t bits = number();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  std::string_view text() { return take(count(1)); }
  /// A count of things that take at least so many bytes each: no more than there can be.
  std::size_t count(std::size_t bytes_each) {
    const std::int64_t value = number();
    if (value < 0 || static_cast<std::uint64_t>(value) > bytes_.size() / bytes_each) {
      throw DataLoss("a message says that {} things follow, but it has {} more bytes", value,
                     bytes_.size());
    }
    return static_cast<std::size_t>(value);
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) {
      throw DataLoss("a message ends {} bytes too early", size - bytes_.size());
    }
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
};

}  // namespace muster::internal
