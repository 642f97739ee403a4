#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/records/compression.h"

namespace muster {

enum class NpyType : std::uint8_t {
  kUint8,
  kInt32,
  kInt64,
  kFloat,
  kDouble,
  kBool,
  kInt8,
  kInt16,
  kUint16,
  kUint32,
  kUint64,
  kHalf,
  /// Strings of one width, those that are shorter filled with zeros.
  kBytes,
  /// The same of characters of four bytes each (UTF-32).
  kUnicode,
};

/// Bytes of one number; of one character of kBytes and kUnicode.
std::size_t size_of(NpyType type);
/// As a .npy header spells it: "|u1", "<i4", "<f8"; "|S" and "<U" without the width.
std::string_view name_of(NpyType type);

/// An array as numpy.save wrote it.
struct NpyArray {
  NpyType type = NpyType::kUint8;
  /// Characters of one string; 1 for numbers.
  std::size_t width = 1;
  /// Empty for a single value.
  std::vector<std::size_t> shape{};
  /// Row by row, little-endian.
  std::string data{};

  /// The first dimension, or 1 for a single value.
  std::size_t items() const { return shape.empty() ? 1 : shape.front(); }
  std::size_t item_bytes() const;
  /// The bytes of item `i`, which must be below items(); a view into `data`.
  std::string_view item(std::size_t i) const;
};

/// Content of the header of a .npy file.
struct NpyHeader {
  /// Without data.
  NpyArray array{};
  /// The first dimension is that of neighbours, not the last.
  bool is_fortran_order = false;
  /// Where the data begins, and how long it is.
  std::uint64_t data_offset = 0;
  std::uint64_t data_bytes = 0;
};
/// Reads the header alone, and as read_npy() throws, but takes Fortran order.
NpyHeader read_npy_header(InputStream& input, std::string_view name);

/// Reads a .npy file of format 1 to 3, also a compressed one. Throws NotFound; Unimplemented,
/// naming it, for another type (objects, big-endian numbers) or Fortran order; DataLoss, with the
/// offset, for a damaged header or a size that is not the file's. Memory is taken only for bytes
/// that are there.
NpyArray read_npy(const Path& path);
/// The same from a stream of plain bytes; `name` stands for the file in messages.
NpyArray read_npy(InputStream& input, std::string_view name);
/// The same for the bytes of a file; `name` stands for it in messages.
NpyArray parse_npy(std::string_view bytes, std::string_view name);

/// The elements of an array of strings as UTF-8 or bytes, without the zeros at their ends. Throws
/// InvalidArgument for an array of numbers, DataLoss for what is no character.
std::vector<std::string> npy_strings(const NpyArray& array);

/// An array of strings, as wide as the longest.
NpyArray npy_of_strings(std::vector<std::size_t> shape, const std::vector<std::string>& values);

/// The bytes of a .npy file, the same that numpy.save writes. Throws InvalidArgument unless data
/// and shape agree.
std::string encode_npy(const NpyArray& array);

}  // namespace muster
