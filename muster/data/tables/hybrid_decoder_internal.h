#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::parquet_internal {

/// Unpacks `count` numbers of `width` bits (0 to 64), low bits first, which begin at bit
/// `first_bit` of `bytes`. What lies beyond the bytes is 0.
void unpack_bits(std::string_view bytes, std::uint64_t first_bit, unsigned width,
                 std::uint32_t* out, std::size_t count);
void unpack_bits(std::string_view bytes, std::uint64_t first_bit, unsigned width,
                 std::uint64_t* out, std::size_t count);

/// A number that stands in a page in groups of seven bits. Throws DataLoss.
std::uint64_t take_varint(std::string_view& bytes);

/// Numbers as runs of one and as packed groups of eight: levels and places in a dictionary.
class HybridDecoder {
 public:
  HybridDecoder() = default;
  /// Throws DataLoss for a width of more than 32 bits.
  HybridDecoder(std::string_view bytes, unsigned width);

  /// Some numbers, in one of two forms.
  struct Run {
    std::size_t count = 0;
    /// `value` is all of them; else they are in the memory that next() was given.
    bool is_repeated = false;
    std::uint32_t value = 0;
  };
  /// The next numbers, at most `most`, which is positive; packed ones go to `out`. Throws DataLoss
  /// at the end of the bytes.
  Run next(std::uint32_t* out, std::size_t most);
  /// The same for numbers of one bit, as bytes of 0 or 1.
  Run next_flags(std::uint8_t* out, std::size_t most);
  /// The next `count` numbers.
  void read(std::uint32_t* out, std::size_t count);

 private:
  void begin_run();

  std::string_view bytes_{};
  unsigned width_ = 0;
  std::uint64_t left_ = 0;
  bool is_repeated_ = false;
  std::uint32_t value_ = 0;
  /// The packed numbers of the run, and how many of them were taken.
  std::string_view packed_{};
  std::uint64_t packed_at_ = 0;
};

}  // namespace muster::parquet_internal
