#include <limits>

#include "muster/base/error.h"
#include "muster/data/tables/thrift_compact_internal.h"

namespace muster::parquet_internal {
namespace {

constexpr int kMostThriftDepth = 32;

}  // namespace

void ThriftReader::fail(std::string_view why) const {
  throw DataLoss("damaged metadata at byte {} of it: {}", at_, why);
}

void ThriftReader::enter() {
  if (++depth_ > kMostThriftDepth) fail("nested too deeply");
}

std::uint8_t ThriftReader::read_u8() {
  if (at_ >= bytes_.size()) fail("truncated");
  return static_cast<std::uint8_t>(bytes_[at_++]);
}

std::uint64_t ThriftReader::read_varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint8_t byte = read_u8();
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  fail("a number of more than 64 bits");
}

std::int64_t ThriftReader::read_zigzag() {
  const std::uint64_t value = read_varint();
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

ThriftField ThriftReader::read_field_header(std::int32_t last_id) {
  const std::uint8_t header = read_u8();
  const auto type = static_cast<ThriftType>(header & 0x0fU);
  if (type == ThriftType::kStop) return {};
  const std::int32_t delta = header >> 4;
  if (delta != 0) return {last_id + delta, type};
  const std::int64_t id = read_zigzag();
  if (id < 0 || id > std::numeric_limits<std::int16_t>::max()) fail("a field of impossible number");
  return {static_cast<std::int32_t>(id), type};
}

void ThriftReader::expect(const ThriftField& field, ThriftType type) const {
  if (field.type != type) fail("a field of another type than Parquet gives it");
}

std::size_t ThriftReader::read_list_header(const ThriftField& field, ThriftType element) {
  expect(field, ThriftType::kList);
  const std::uint8_t header = read_u8();
  std::uint64_t count = header >> 4;
  if (count == 15) count = read_varint();
  if (count > bytes_.size() - at_) fail("a list that is longer than what is left");
  if (count > 0 && static_cast<ThriftType>(header & 0x0fU) != element) {
    fail("a list of another type than Parquet gives it");
  }
  return count;
}

bool ThriftReader::read_bool(const ThriftField& field) {
  if (field.type != ThriftType::kTrue) expect(field, ThriftType::kFalse);
  return field.type == ThriftType::kTrue;
}

std::uint8_t ThriftReader::read_byte(const ThriftField& field) {
  expect(field, ThriftType::kByte);
  return read_u8();
}

std::int32_t ThriftReader::read_i32(const ThriftField& field) {
  expect(field, ThriftType::kI32);
  const std::int64_t value = read_zigzag();
  if (value < std::numeric_limits<std::int32_t>::min() ||
      value > std::numeric_limits<std::int32_t>::max()) {
    fail("a number of more than 32 bits");
  }
  return static_cast<std::int32_t>(value);
}

std::int64_t ThriftReader::read_i64(const ThriftField& field) {
  expect(field, ThriftType::kI64);
  return read_zigzag();
}

std::string_view ThriftReader::read_binary_element() {
  const std::uint64_t size = read_varint();
  if (size > bytes_.size() - at_) fail("a string that is longer than what is left");
  const std::string_view value = bytes_.substr(at_, size);
  at_ += size;
  return value;
}

std::string_view ThriftReader::read_binary(const ThriftField& field) {
  expect(field, ThriftType::kBinary);
  return read_binary_element();
}

void ThriftReader::skip_container(ThriftType type) {
  enter();
  if (type == ThriftType::kMap) {
    const std::uint64_t count = read_varint();
    const std::uint8_t types = count == 0 ? 0 : read_u8();
    if (count > bytes_.size() - at_) fail("a map that is longer than what is left");
    for (std::uint64_t i = 0; i < count; ++i) {
      skip(static_cast<ThriftType>(types >> 4));
      skip(static_cast<ThriftType>(types & 0x0fU));
    }
  } else {
    const std::uint8_t header = read_u8();
    std::uint64_t count = header >> 4;
    if (count == 15) count = read_varint();
    if (count > bytes_.size() - at_) fail("a list that is longer than what is left");
    const auto element = static_cast<ThriftType>(header & 0x0fU);
    const bool is_bool = element == ThriftType::kTrue || element == ThriftType::kFalse;
    // A boolean is in its field's header, but is a byte in a list.
    for (std::uint64_t i = 0; i < count; ++i) skip(is_bool ? ThriftType::kByte : element);
  }
  --depth_;
}

void ThriftReader::skip(ThriftType type) {
  switch (type) {
    case ThriftType::kTrue:
    case ThriftType::kFalse:
      return;
    case ThriftType::kByte:
      read_u8();
      return;
    case ThriftType::kI16:
    case ThriftType::kI32:
    case ThriftType::kI64:
      read_varint();
      return;
    case ThriftType::kDouble:
      if (bytes_.size() - at_ < 8) fail("truncated");
      at_ += 8;
      return;
    case ThriftType::kBinary:
      read_binary_element();
      return;
    case ThriftType::kList:
    case ThriftType::kSet:
    case ThriftType::kMap:
      return skip_container(type);
    case ThriftType::kStruct:
      return read_struct([](const ThriftField&) { return false; });
    case ThriftType::kStop:
      break;
  }
  fail("a field of unknown type");
}

}  // namespace muster::parquet_internal
