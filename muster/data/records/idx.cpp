#include "muster/data/records/idx.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/data/records/compression.h"
#include "muster/data/records/sized_payload_internal.h"

namespace muster {
namespace {

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

IdxType checked_type(std::uint8_t number, std::string_view name) {
  switch (static_cast<IdxType>(number)) {
    case IdxType::kUint8:
    case IdxType::kInt8:
    case IdxType::kInt16:
    case IdxType::kInt32:
    case IdxType::kFloat:
    case IdxType::kDouble:
      return static_cast<IdxType>(number);
  }
  throw DataLoss("{}: unknown IDX element type 0x{:02x} at offset 2", name, number);
}

/// The dimensions, and how many bytes of data they stand for.
std::uint64_t read_shape(SizedReader& reader, std::size_t dimensions, IdxArray& array) {
  std::uint64_t bytes = size_of(array.type);
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::uint32_t dimension = big_endian(reader.take(4, "the header"));
    array.shape.push_back(dimension);
    if (__builtin_mul_overflow(bytes, std::uint64_t{dimension}, &bytes)) {
      throw DataLoss("{}: the dimensions up to offset {} hold more than can be counted",
                     reader.name(), reader.offset());
    }
  }
  return bytes;
}

void reverse_each(std::string& data, std::size_t width) {
  if (width == 1) return;
  for (auto at = data.begin(); at != data.end(); at += static_cast<std::ptrdiff_t>(width)) {
    std::reverse(at, at + static_cast<std::ptrdiff_t>(width));
  }
}

IdxArray read_idx(InputStream& input, std::string_view name) {
  SizedReader reader(input, name);
  const std::string magic = reader.take(4, "the magic number");
  if (magic[0] != 0 || magic[1] != 0) {
    throw DataLoss("{}: not an IDX file: magic number 0x{:08x} at offset 0", name,
                   big_endian(magic));
  }
  IdxArray array{.type = checked_type(static_cast<std::uint8_t>(magic[2]), name)};
  const auto dimensions = static_cast<std::uint8_t>(magic[3]);
  if (dimensions == 0) throw DataLoss("{}: an IDX file without dimensions at offset 3", name);
  const std::uint64_t bytes = read_shape(reader, dimensions, array);
  array.data = reader.take(bytes, "the data");
  reader.expect_end();
  // The file is big-endian, and the build refuses machines that are.
  reverse_each(array.data, size_of(array.type));
  return array;
}

}  // namespace

std::size_t size_of(IdxType type) {
  switch (type) {
    case IdxType::kUint8:
    case IdxType::kInt8:
      return 1;
    case IdxType::kInt16:
      return 2;
    case IdxType::kInt32:
    case IdxType::kFloat:
      return 4;
    case IdxType::kDouble:
      return 8;
  }
  throw Internal("no such IDX type: {}", static_cast<int>(type));
}

std::size_t IdxArray::item_bytes() const { return items() == 0 ? 0 : data.size() / items(); }

std::string_view IdxArray::item(std::size_t i) const {
  return std::string_view(data).substr(i * item_bytes(), item_bytes());
}

IdxArray read_idx(const Path& path) { return read_idx(*open_input(path), path.string()); }

IdxArray parse_idx(std::string_view bytes, std::string_view name) {
  return read_idx(*open_input(bytes, std::string(name)), name);
}

}  // namespace muster
