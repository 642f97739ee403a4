#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::parquet_internal {

/// Whole numbers as differences in blocks, each with a width of bits of its own
/// (DELTA_BINARY_PACKED).
class DeltaDecoder {
 public:
  /// Throws DataLoss unless `bytes` begin with such numbers, at most `most` of them.
  DeltaDecoder(std::string_view bytes, std::uint64_t most);

  std::uint64_t count() const { return count_; }
  /// The next numbers, modulo 2^64. Throws DataLoss beyond the last one.
  void read(std::uint64_t* out, std::size_t count);
  /// The bytes that follow the numbers. Before the first read().
  std::string_view rest() const;

 private:
  void begin_block();
  void begin_miniblock();

  std::string_view bytes_{};
  std::uint64_t miniblocks_ = 0;
  std::uint64_t per_miniblock_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t value_ = 0;
  std::uint64_t least_delta_ = 0;
  std::string_view widths_{};
  std::string_view packed_{};
  unsigned width_ = 0;
  std::uint64_t packed_at_ = 0;
  std::uint64_t left_in_miniblock_ = 0;
};

}  // namespace muster::parquet_internal
