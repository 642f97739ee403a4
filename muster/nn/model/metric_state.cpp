#include "muster/nn/model/metric_state.h"

#include <bit>

#include "muster/base/error.h"

namespace muster {
namespace {

template <typename Unsigned>
void append_little_endian(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<char>(static_cast<std::uint8_t>(value >> (8 * i))));
  }
}

template <typename Unsigned>
Unsigned little_endian(std::string_view bytes) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value |= static_cast<Unsigned>(static_cast<std::uint8_t>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

void StateWriter::u32(std::uint32_t value) { append_little_endian(bytes_, value); }
void StateWriter::i64(std::int64_t value) {
  append_little_endian(bytes_, static_cast<std::uint64_t>(value));
}
void StateWriter::f32(float value) { u32(std::bit_cast<std::uint32_t>(value)); }
void StateWriter::string(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  bytes_.append(value);
}

std::string_view StateReader::take(std::size_t size) {
  if (size > left()) {
    throw DataLoss("metric state ends early: {} bytes wanted at offset {}, {} are there", size,
                   offset_, left());
  }
  const auto taken = bytes_.substr(offset_, size);
  offset_ += size;
  return taken;
}

std::uint8_t StateReader::u8() { return little_endian<std::uint8_t>(take(1)); }
std::uint32_t StateReader::u32() { return little_endian<std::uint32_t>(take(4)); }
std::int64_t StateReader::i64() {
  return static_cast<std::int64_t>(little_endian<std::uint64_t>(take(8)));
}
float StateReader::f32() { return std::bit_cast<float>(u32()); }
std::string StateReader::string() { return std::string(take(u32())); }

std::uint32_t StateReader::count(std::size_t bytes_each) {
  const auto count = u32();
  if (count > left() / bytes_each) {
    throw DataLoss("metric state promises {} entries before offset {}, but only {} bytes follow",
                   count, offset_, left());
  }
  return count;
}

}  // namespace muster
