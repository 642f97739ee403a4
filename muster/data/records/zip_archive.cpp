#include "muster/data/records/zip_archive.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/compression_internal.h"

namespace muster {
namespace {

// ZIP's records and the sizes of their fixed parts.
constexpr std::string_view kEndMagic{"PK\x05\x06", 4};
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kMostCommentBytes = 0xFFFF;
constexpr std::string_view kLargeLocatorMagic{"PK\x06\x07", 4};
constexpr std::size_t kLargeLocatorBytes = 20;
constexpr std::string_view kLargeEndMagic{"PK\x06\x06", 4};
constexpr std::size_t kLargeEndBytes = 56;
constexpr std::string_view kEntryMagic{"PK\x01\x02", 4};
constexpr std::size_t kEntryBytes = 46;
constexpr std::string_view kLocalMagic{"PK\x03\x04", 4};
constexpr std::size_t kLocalBytes = 30;

constexpr std::uint64_t kStored = 0;
constexpr std::uint64_t kDeflated = 8;
// In the place of a number that needs 64 bits, which then stands in an extra field of this kind.
constexpr std::uint64_t kLarge = 0xFFFFFFFF;
constexpr std::uint64_t kManyEntries = 0xFFFF;
constexpr std::uint64_t kLargeField = 1;

std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) {
    value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  }
  return value;
}

/// Holds what comes out of an archive to the size and the checksum that its directory gives.
class EntryInput final : public InputStream {
 public:
  EntryInput(std::unique_ptr<InputStream> input, const ZipEntry& entry, std::string name)
      : input_(std::move(input)), entry_(entry), name_(std::move(name)) {}

  std::size_t read(std::span<char> out) override {
    const std::size_t count = input_->read(out);
    crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(out.data()), count);
    read_bytes_ += count;
    const bool ended = count < out.size();
    if (read_bytes_ > entry_.bytes || (ended && !is_whole())) {
      throw DataLoss("{}: damaged archive: it does not have the size or checksum it should", name_);
    }
    return count;
  }

 private:
  bool is_whole() const { return read_bytes_ == entry_.bytes && crc_ == entry_.crc; }

  std::unique_ptr<InputStream> input_;
  const ZipEntry entry_;
  const std::string name_;
  std::uint64_t read_bytes_ = 0;
  uLong crc_ = 0;
};

}  // namespace

ZipArchive::ZipArchive(std::string_view bytes, std::string_view file) : bytes_(bytes), file_(file) {
  read_directory();
}

std::string_view ZipArchive::packed(const ZipEntry& entry) const {
  const std::string_view header = take(entry.offset, kLocalBytes, kLocalMagic);
  const std::uint64_t begin =
      entry.offset + kLocalBytes + number(header, 26, 2) + number(header, 28, 2);
  return take(begin, entry.packed_bytes, {});
}

std::unique_ptr<InputStream> ZipArchive::open(const ZipEntry& entry,
                                              const DecompressionLimits& limits) const {
  auto input = compression_internal::memory_input(packed(entry));
  const std::string name = fmt::format("{}[{}]", file_, entry.name);
  if (entry.method == kDeflated) {
    input = compression_internal::inflate_bare(std::move(input), name, limits);
  } else if (entry.method != kStored) {
    throw Unimplemented("{}: {} is packed by ZIP's method {}; known are 0 and 8", file_, entry.name,
                        entry.method);
  }
  return std::make_unique<EntryInput>(std::move(input), entry, name);
}

void ZipArchive::damaged(std::uint64_t offset, std::string_view what) const {
  throw DataLoss("{}: damaged archive at offset {}: {}", file_, offset, what);
}

// These bytes of the file, which begin with this magic number.
std::string_view ZipArchive::take(std::uint64_t offset, std::uint64_t count,
                                  std::string_view magic) const {
  if (offset > bytes_.size() || count > bytes_.size() - offset) {
    damaged(offset, "it ends too early");
  }
  const std::string_view part = bytes_.substr(offset, count);
  if (!part.starts_with(magic)) damaged(offset, "a record has the wrong magic number");
  return part;
}

void ZipArchive::read_directory() {
  const std::size_t tail = std::min(bytes_.size(), kEndBytes + kMostCommentBytes);
  const std::size_t end = bytes_.rfind(kEndMagic);
  if (end == bytes_.npos || end < bytes_.size() - tail) {
    throw DataLoss("{}: not a ZIP archive, or cut short: it has no end of one", file_);
  }
  const std::string_view record = take(end, kEndBytes, kEndMagic);
  std::uint64_t count = number(record, 10, 2);
  std::uint64_t at = number(record, 16, 4);
  if ((at == kLarge || count == kManyEntries) && end >= kLargeLocatorBytes &&
      bytes_.substr(end - kLargeLocatorBytes).starts_with(kLargeLocatorMagic)) {
    const std::uint64_t place = number(bytes_, end - kLargeLocatorBytes + 8, 8);
    const std::string_view large = take(place, kLargeEndBytes, kLargeEndMagic);
    count = number(large, 32, 8);
    at = number(large, 48, 8);
  }
  // Each entry that is read is there, so a false count takes no memory.
  for (std::uint64_t i = 0; i < count; ++i) at = read_entry(at);
}

std::uint64_t ZipArchive::read_entry(std::uint64_t at) {
  const std::string_view fixed = take(at, kEntryBytes, kEntryMagic);
  const std::uint64_t name_bytes = number(fixed, 28, 2);
  const std::uint64_t extra_bytes = number(fixed, 30, 2);
  ZipEntry entry{.name = std::string(take(at + kEntryBytes, name_bytes, {})),
                 .method = number(fixed, 10, 2),
                 .crc = number(fixed, 16, 4),
                 .packed_bytes = number(fixed, 20, 4),
                 .bytes = number(fixed, 24, 4),
                 .offset = number(fixed, 42, 4)};
  read_large_sizes(entry, at + kEntryBytes + name_bytes, extra_bytes);
  entries_.push_back(std::move(entry));
  return at + kEntryBytes + name_bytes + extra_bytes + number(fixed, 32, 2);
}

// The numbers of 64 bits that an entry's extra fields hold, in this order, where the fixed ones say
// so.
void ZipArchive::read_large_sizes(ZipEntry& entry, std::uint64_t at, std::uint64_t bytes) const {
  std::string_view fields = take(at, bytes, {});
  while (fields.size() >= 4) {
    const std::uint64_t kind = number(fields, 0, 2);
    const std::uint64_t size = std::min<std::uint64_t>(number(fields, 2, 2), fields.size() - 4);
    std::string_view field = fields.substr(4, size);
    fields.remove_prefix(4 + size);
    if (kind != kLargeField) continue;
    for (std::uint64_t* value : {&entry.bytes, &entry.packed_bytes, &entry.offset}) {
      if (*value != kLarge) continue;
      if (field.size() < 8) damaged(at, "a size of 64 bits is missing");
      *value = number(field, 0, 8);
      field.remove_prefix(8);
    }
  }
}

}  // namespace muster
