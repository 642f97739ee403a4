#include <algorithm>
#include <array>

#include "muster/base/error.h"
#include "muster/data/tables/delta_decoder_internal.h"
#include "muster/data/tables/hybrid_decoder_internal.h"

namespace muster::parquet_internal {
namespace {

/// Writers make blocks of 128 or 256 numbers.
constexpr std::uint64_t kMostBlockNumbers = 65'536;

std::uint64_t take_zigzag(std::string_view& bytes) {
  const std::uint64_t value = take_varint(bytes);
  return (value >> 1) ^ (~(value & 1) + 1);
}

}  // namespace

DeltaDecoder::DeltaDecoder(std::string_view bytes, std::uint64_t most) : bytes_(bytes) {
  const std::uint64_t block = take_varint(bytes_);
  miniblocks_ = take_varint(bytes_);
  count_ = take_varint(bytes_);
  value_ = take_zigzag(bytes_);
  if (block == 0 || block > kMostBlockNumbers || miniblocks_ == 0 || block % miniblocks_ != 0 ||
      (block / miniblocks_) % 8 != 0) {
    throw DataLoss("differences in blocks of {} numbers, {} parts", block, miniblocks_);
  }
  per_miniblock_ = block / miniblocks_;
  if (count_ > most) throw DataLoss("{} differences for {} values", count_, most);
}

void DeltaDecoder::begin_block() {
  least_delta_ = take_zigzag(bytes_);
  if (bytes_.size() < miniblocks_) throw DataLoss("differences end too early");
  widths_ = bytes_.substr(0, miniblocks_);
  bytes_.remove_prefix(miniblocks_);
}

void DeltaDecoder::begin_miniblock() {
  if (widths_.empty()) begin_block();
  width_ = static_cast<std::uint8_t>(widths_.front());
  widths_.remove_prefix(1);
  if (width_ > 64) throw DataLoss("differences of {} bits", width_);
  const std::uint64_t wanted = std::min(per_miniblock_, count_ - taken_);
  const std::uint64_t size = std::min<std::uint64_t>(per_miniblock_ * width_ / 8, bytes_.size());
  if (size * 8 < wanted * width_) throw DataLoss("differences end too early");
  packed_ = bytes_.substr(0, size);
  packed_at_ = 0;
  left_in_miniblock_ = per_miniblock_;
  bytes_.remove_prefix(size);
}

void DeltaDecoder::read(std::uint64_t* out, std::size_t count) {
  if (count > count_ - taken_) throw DataLoss("there are only {} differences", count_);
  if (count > 0 && taken_ == 0) {
    *out++ = value_;
    ++taken_;
    --count;
  }
  while (count > 0) {
    if (left_in_miniblock_ == 0) begin_miniblock();
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(count, left_in_miniblock_));
    unpack_bits(packed_, packed_at_ * width_, width_, out, some);
    for (std::size_t i = 0; i < some; ++i) {
      value_ += out[i] + least_delta_;
      out[i] = value_;
    }
    out += some;
    packed_at_ += some;
    left_in_miniblock_ -= some;
    taken_ += some;
    count -= some;
  }
}

std::string_view DeltaDecoder::rest() const {
  DeltaDecoder walk = *this;
  if (walk.taken_ < walk.count_) ++walk.taken_;
  while (walk.taken_ < walk.count_) {
    walk.begin_miniblock();
    walk.taken_ += std::min(walk.per_miniblock_, walk.count_ - walk.taken_);
  }
  return walk.bytes_;
}

}  // namespace muster::parquet_internal
