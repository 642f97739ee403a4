#include "muster/data/records/npz.h"

#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/records/compression_internal.h"

namespace muster {
namespace {

// ZIP's three records and the sizes of their fixed parts.
constexpr std::string_view kEndMagic{"PK\x05\x06", 4};
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kMostCommentBytes = 0xFFFF;
constexpr std::string_view kEntryMagic{"PK\x01\x02", 4};
constexpr std::size_t kEntryBytes = 46;
constexpr std::string_view kLocalMagic{"PK\x03\x04", 4};
constexpr std::size_t kLocalBytes = 30;

constexpr std::uint64_t kStored = 0;
constexpr std::uint64_t kDeflated = 8;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;

/// A file of the archive, as its directory tells it.
struct ZipEntry {
  std::string name;
  std::uint64_t method = 0;
  std::uint64_t crc = 0;
  std::uint64_t packed_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
};

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

class Archive {
 public:
  Archive(std::string_view bytes, std::string_view file) : bytes_(bytes), file_(file) {
    read_directory();
  }

  const std::vector<ZipEntry>& entries() const { return entries_; }

  /// What the file holds, unpacked on the way.
  std::unique_ptr<InputStream> open(const ZipEntry& entry,
                                    const DecompressionLimits& limits) const {
    const std::string_view header = take(entry.offset, kLocalBytes, kLocalMagic);
    const std::uint64_t begin =
        entry.offset + kLocalBytes + number(header, 26, 2) + number(header, 28, 2);
    auto input = compression_internal::memory_input(take(begin, entry.packed_bytes, {}));
    const std::string name = fmt::format("{}[{}]", file_, entry.name);
    if (entry.method == kDeflated) {
      input = compression_internal::inflate_bare(std::move(input), name, limits);
    } else if (entry.method != kStored) {
      throw Unimplemented("{}: {} is packed by ZIP's method {}; known are 0 and 8", file_,
                          entry.name, entry.method);
    }
    return std::make_unique<EntryInput>(std::move(input), entry, name);
  }

 private:
  static std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t count) {
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) {
      value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
    }
    return value;
  }

  [[noreturn]] void damaged(std::uint64_t offset, std::string_view what) const {
    throw DataLoss("{}: damaged archive at offset {}: {}", file_, offset, what);
  }

  // These bytes of the file, which begin with this magic number.
  std::string_view take(std::uint64_t offset, std::uint64_t count, std::string_view magic) const {
    if (offset > bytes_.size() || count > bytes_.size() - offset) {
      damaged(offset, "it ends too early");
    }
    const std::string_view part = bytes_.substr(offset, count);
    if (!part.starts_with(magic)) damaged(offset, "a record has the wrong magic number");
    return part;
  }

  void read_directory() {
    const std::size_t tail = std::min(bytes_.size(), kEndBytes + kMostCommentBytes);
    const std::size_t end = bytes_.rfind(kEndMagic);
    if (end == bytes_.npos || end < bytes_.size() - tail) {
      throw DataLoss("{}: not a .npz file, or cut short: it has no end of a ZIP archive", file_);
    }
    const std::string_view record = take(end, kEndBytes, kEndMagic);
    const std::uint64_t count = number(record, 10, 2);
    std::uint64_t at = number(record, 16, 4);
    for (std::uint64_t i = 0; i < count; ++i) at = read_entry(at);
  }

  std::uint64_t read_entry(std::uint64_t at) {
    const std::string_view fixed = take(at, kEntryBytes, kEntryMagic);
    const std::uint64_t name_bytes = number(fixed, 28, 2);
    ZipEntry entry{.name = std::string(take(at + kEntryBytes, name_bytes, {})),
                   .method = number(fixed, 10, 2),
                   .crc = number(fixed, 16, 4),
                   .packed_bytes = number(fixed, 20, 4),
                   .bytes = number(fixed, 24, 4),
                   .offset = number(fixed, 42, 4)};
    entries_.push_back(std::move(entry));
    return at + kEntryBytes + name_bytes + number(fixed, 30, 2) + number(fixed, 32, 2);
  }

  std::string_view bytes_;
  std::string_view file_;
  std::vector<ZipEntry> entries_{};
};

}  // namespace

NpyArray read_npz(const Path& path, std::string_view name, const DecompressionLimits& limits) {
  return parse_npz(read_file(path, kMostBytes), path.string(), name, limits);
}

NpyArray parse_npz(std::string_view bytes, std::string_view file, std::string_view name,
                   const DecompressionLimits& limits) {
  constexpr std::string_view kSuffix = ".npy";
  const Archive archive(bytes, file);
  std::vector<std::string> names;
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.ends_with(kSuffix)) continue;
    names.push_back(entry.name.substr(0, entry.name.size() - kSuffix.size()));
    if (name.empty() || names.back() == name) found = &entry;
  }
  if (name.empty() && names.size() > 1) {
    throw InvalidArgument("{} holds more than one array; name one of {}", file,
                          fmt::join(names, ", "));
  }
  if (found == nullptr) {
    throw NotFound("{} holds no array '{}'; it has: {}", file, name, fmt::join(names, ", "));
  }
  return read_npy(*archive.open(*found, limits), fmt::format("{}[{}]", file, found->name));
}

}  // namespace muster
