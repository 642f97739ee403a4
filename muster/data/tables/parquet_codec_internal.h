#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace muster::parquet_internal {

/// Bytes of a page and who keeps them.
struct PageBytes {
  std::string_view bytes{};
  std::shared_ptr<const void> owner{};
};

/// "SNAPPY", or the number of a codec without a name.
std::string_view codec_name(std::int32_t codec);
/// Whether pages of this codec can be read.
bool is_known_codec(std::int32_t codec);

/// Takes the compression off `stored`, which must become `plain_bytes`. Throws DataLoss where it
/// does not, and ResourceExhausted, before memory is taken, for a page that claims to grow more
/// than default_max_ratio() times and beyond 16 MiB.
PageBytes decompress_page(std::int32_t codec, std::string_view stored, std::size_t plain_bytes);

}  // namespace muster::parquet_internal
