#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

/// Writes a metric's state as little-endian bytes.
class StateWriter {
 public:
  void u8(std::uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void u32(std::uint32_t value);
  void i64(std::int64_t value);
  void f32(float value);
  void string(std::string_view value);

  std::string take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads it back. Every function throws DataLoss, with the offset, when the bytes end early.
class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint8_t u8();
  std::uint32_t u32();
  std::int64_t i64();
  float f32();
  std::string string();
  /// A number of things of at least `bytes_each` bytes that follow: checked against what is left.
  std::uint32_t count(std::size_t bytes_each);

  std::size_t offset() const { return offset_; }
  std::size_t left() const { return bytes_.size() - offset_; }

 private:
  std::string_view take(std::size_t size);

  std::string_view bytes_;
  std::size_t offset_ = 0;
};

}  // namespace muster
