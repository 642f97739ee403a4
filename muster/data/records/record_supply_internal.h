#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/crc32c.h"
#include "muster/base/unaligned.h"
#include "muster/data/records/compression.h"
#include "muster/data/records/record_reader.h"

namespace muster::record_internal {

/// A record is: length (8 bytes), masked CRC of these (4), data, masked CRC of the data (4).
inline constexpr std::size_t kHeaderBytes = 12;
inline constexpr std::size_t kFooterBytes = 4;

/// Whether the first 12 bytes of `bytes` are a length and its right checksum.
inline bool has_valid_length(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return false;
  const auto stored = load_unaligned<std::uint32_t>(bytes.data() + 8);
  return mask_crc(crc32c({bytes.data(), 8})) == stored;
}

/// Where a reader's plain bytes come from: a mapping as a whole, or a stream block by block.
class RecordSupply {
 public:
  virtual ~RecordSupply() = default;
  /// `rest` is the unread end of the view that was given last, a default one at first. The new view
  /// begins with the same bytes and has at least `want`, or fewer at the end of the data or before
  /// a failure. Views given earlier stay valid only as far as a share of them is held.
  virtual std::string_view more(std::string_view rest, std::size_t want) = 0;
  /// Throws the failure that ended the bytes before their end, if there was one.
  virtual void check() const {}
  /// A share of what the last view is in.
  virtual const std::shared_ptr<const void>& share() = 0;
  /// How many bytes there are, where seek() can go to each; nothing where it cannot.
  virtual std::optional<std::uint64_t> seekable_bytes() const { return std::nullopt; }
  /// The view that begins at this byte, of at most seekable_bytes(); it may be empty for now.
  virtual std::string_view seek(std::uint64_t) { return {}; }
};

struct OpenedSupply {
  std::unique_ptr<RecordSupply> supply;
  /// Never kAuto.
  Compression compression;
};

OpenedSupply open_supply(const Path& path, const RecordReaderOptions& options);
OpenedSupply open_supply(std::string_view bytes, const std::string& name,
                         const RecordReaderOptions& options);

}  // namespace muster::record_internal
