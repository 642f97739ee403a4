#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// The element types of an IDX file, with the numbers its third byte uses.
enum class IdxType : std::uint8_t {
  kUint8 = 0x08,
  kInt8 = 0x09,
  kInt16 = 0x0B,
  kInt32 = 0x0C,
  kFloat = 0x0D,
  kDouble = 0x0E,
};

std::size_t size_of(IdxType type);

/// An array as MNIST's files hold it: the first dimension counts items.
struct IdxArray {
  IdxType type = IdxType::kUint8;
  std::vector<std::size_t> shape{};
  /// Row by row, in this machine's byte order.
  std::string data{};

  std::size_t items() const { return shape.front(); }
  /// Bytes of one item, such as 784 for an image of 28 x 28.
  std::size_t item_bytes() const;
  /// The bytes of item `i`, which must be below items(); a view into `data`.
  std::string_view item(std::size_t i) const;
};

/// Reads an IDX file, also a compressed one. Throws NotFound, and DataLoss, with the offset, when
/// the magic number or type is none of IDX's or the sizes in the header are not those of the file;
/// memory is taken only for bytes that are there.
IdxArray read_idx(const Path& path);

/// The same for the bytes of a file; `name` stands for it in messages.
IdxArray parse_idx(std::string_view bytes, std::string_view name);

}  // namespace muster
