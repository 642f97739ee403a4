#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

enum class NpyType : std::uint8_t { kUint8, kInt32, kInt64, kFloat, kDouble };

std::size_t size_of(NpyType type);
/// As a .npy header spells it: "|u1", "<i4", "<i8", "<f4", "<f8".
std::string_view name_of(NpyType type);

/// An array as numpy.save wrote it.
struct NpyArray {
  NpyType type = NpyType::kUint8;
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

/// Reads a .npy file of format 1 to 3, also a compressed one. Throws NotFound; Unimplemented,
/// naming it, for another type or Fortran order; DataLoss, with the offset, for a damaged header or
/// a size that is not the file's. Memory is taken only for bytes that are there.
NpyArray read_npy(const Path& path);
/// The same for the bytes of a file; `name` stands for it in messages.
NpyArray parse_npy(std::string_view bytes, std::string_view name);

}  // namespace muster
