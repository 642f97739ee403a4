#include <algorithm>
#include <cstring>

#include "muster/base/error.h"
#include "muster/base/unaligned.h"
#include "muster/data/tables/hybrid_decoder_internal.h"

namespace muster::parquet_internal {
namespace {

constexpr unsigned kMostWidth = 32;

/// The 64 bits that begin in byte `at`; what lies beyond the bytes is 0.
std::uint64_t word_at(std::string_view bytes, std::uint64_t at) {
  if (at + 8 <= bytes.size()) return load_unaligned<std::uint64_t>(bytes.data() + at);
  std::uint64_t word = 0;
  if (at < bytes.size()) std::memcpy(&word, bytes.data() + at, bytes.size() - at);
  return word;
}

template <typename Word>
void unpack_narrow(std::string_view bytes, std::uint64_t bit, unsigned width, Word* out,
                   std::size_t count) {
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  // As many as lie in words that are whole.
  const std::uint64_t whole_bits = bytes.size() < 8 ? 0 : (bytes.size() - 7) * 8;
  const std::uint64_t whole =
      bit >= whole_bits ? 0
                        : std::min<std::uint64_t>(count, (whole_bits - bit + width - 1) / width);
  const char* const data = bytes.data();
  std::size_t i = 0;
  for (; i < whole; ++i, bit += width) {
    out[i] = static_cast<Word>((load_unaligned<std::uint64_t>(data + bit / 8) >> (bit % 8)) & mask);
  }
  for (; i < count; ++i, bit += width) {
    out[i] = static_cast<Word>((word_at(bytes, bit / 8) >> (bit % 8)) & mask);
  }
}

/// The bits of a byte as eight bytes of 0 or 1, lowest first.
std::uint64_t spread_bits(unsigned char byte) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  const std::uint64_t one_bit_each = (byte * kOnes) & 0x8040201008040201;
  // Adding 127 carries into the top bit of each that is not 0.
  return ((one_bit_each + 127 * kOnes) >> 7) & kOnes;
}

void unpack_flags(std::string_view bytes, std::uint64_t bit, std::uint8_t* out, std::size_t count) {
  std::size_t i = 0;
  const auto flag = [&] { return (static_cast<unsigned char>(bytes[bit / 8]) >> (bit % 8)) & 1U; };
  for (; i < count && bit % 8 != 0; ++i, ++bit) out[i] = static_cast<std::uint8_t>(flag());
  for (; i + 8 <= count; i += 8, bit += 8) {
    const std::uint64_t flags = spread_bits(static_cast<unsigned char>(bytes[bit / 8]));
    std::memcpy(out + i, &flags, sizeof(flags));
  }
  for (; i < count; ++i, ++bit) out[i] = static_cast<std::uint8_t>(flag());
}

}  // namespace

void unpack_bits(std::string_view bytes, std::uint64_t first_bit, unsigned width,
                 std::uint32_t* out, std::size_t count) {
  if (width == 0) return std::fill_n(out, count, 0U), void();
  unpack_narrow(bytes, first_bit, width, out, count);
}

void unpack_bits(std::string_view bytes, std::uint64_t first_bit, unsigned width,
                 std::uint64_t* out, std::size_t count) {
  if (width == 0) return std::fill_n(out, count, std::uint64_t{0}), void();
  if (width <= 56) return unpack_narrow(bytes, first_bit, width, out, count);
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  for (std::size_t i = 0; i < count; ++i, first_bit += width) {
    const unsigned shift = first_bit % 8;
    std::uint64_t word = word_at(bytes, first_bit / 8) >> shift;
    if (shift != 0) word |= word_at(bytes, first_bit / 8 + 8) << (64 - shift);
    out[i] = word & mask;
  }
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (bytes.empty()) throw DataLoss("the numbers of a page end too early");
    const auto byte = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  throw DataLoss("a number of more than 64 bits");
}

HybridDecoder::HybridDecoder(std::string_view bytes, unsigned width)
    : bytes_(bytes), width_(width) {
  if (width > kMostWidth) throw DataLoss("numbers of {} bits, more than {}", width, kMostWidth);
}

void HybridDecoder::begin_run() {
  const std::uint64_t header = take_varint(bytes_);
  is_repeated_ = (header & 1) == 0;
  left_ = header >> 1;
  if (is_repeated_) {
    const std::size_t size = (width_ + 7) / 8;
    if (bytes_.size() < size) throw DataLoss("a run of numbers ends too early");
    value_ = static_cast<std::uint32_t>(word_at(bytes_.substr(0, size), 0));
    bytes_.remove_prefix(size);
    return;
  }
  // The last group may be cut off after the numbers that count.
  const std::uint64_t most_groups = width_ == 0 ? left_ : bytes_.size() / width_ + 1;
  const std::uint64_t groups = std::min(left_, most_groups);
  const std::uint64_t size = std::min<std::uint64_t>(groups * width_, bytes_.size());
  packed_ = bytes_.substr(0, size);
  packed_at_ = 0;
  left_ = width_ == 0 ? std::min<std::uint64_t>(left_, std::uint64_t{1} << 32) * 8
                      : std::min(groups * 8, size * 8 / width_);
  bytes_.remove_prefix(size);
}

HybridDecoder::Run HybridDecoder::next(std::uint32_t* out, std::size_t most) {
  while (left_ == 0) begin_run();
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, most));
  left_ -= count;
  if (is_repeated_) return {count, true, value_};
  unpack_bits(packed_, packed_at_ * width_, width_, out, count);
  packed_at_ += count;
  return {count, false, 0};
}

HybridDecoder::Run HybridDecoder::next_flags(std::uint8_t* out, std::size_t most) {
  if (width_ != 1) throw Internal("flags of {} bits", width_);
  while (left_ == 0) begin_run();
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, most));
  left_ -= count;
  if (is_repeated_) return {count, true, value_};
  unpack_flags(packed_, packed_at_, out, count);
  packed_at_ += count;
  return {count, false, 0};
}

void HybridDecoder::read(std::uint32_t* out, std::size_t count) {
  while (count > 0) {
    const Run run = next(out, count);
    if (run.is_repeated) std::fill_n(out, run.count, run.value);
    out += run.count;
    count -= run.count;
  }
}

}  // namespace muster::parquet_internal
