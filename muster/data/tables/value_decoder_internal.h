#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "muster/data/tables/parquet_codec_internal.h"

namespace muster::parquet_internal {

/// The values of one page, in their order, without the missing ones. Booleans are std::uint8_t,
/// bytes of any length std::string_view.
template <typename T>
class ValueDecoder {
 public:
  virtual ~ValueDecoder() = default;
  /// The next values. Throws DataLoss where there are fewer.
  virtual void read(T* out, std::size_t count) = 0;
  /// Owner of strings that read() gives, beside that of the page; null where there is none.
  virtual std::shared_ptr<const void> owner() const { return nullptr; }
};

/// Values of a page of this encoding. `count` is how many the page has at most, `width` the bytes
/// of values of one length (0: each has its own), `dictionary` null where there is none. Throws
/// DataLoss, and Unimplemented for an encoding that is not read.
template <typename T>
std::unique_ptr<ValueDecoder<T>> make_value_decoder(std::int32_t encoding, std::string_view bytes,
                                                    std::size_t count, std::size_t width,
                                                    const std::vector<T>* dictionary);

/// The values of a dictionary page.
template <typename T>
std::vector<T> read_dictionary(std::int32_t encoding, std::string_view bytes, std::size_t count,
                               std::size_t width);

}  // namespace muster::parquet_internal
