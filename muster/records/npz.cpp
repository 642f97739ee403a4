#include "muster/records/npz.h"

#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "muster/base/error.h"

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
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
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

class Archive {
 public:
  Archive(std::string_view bytes, std::string_view file) : bytes_(bytes), file_(file) {
    read_directory();
  }

  const std::vector<ZipEntry>& entries() const { return entries_; }

  std::string read(const ZipEntry& entry) const {
    const std::string_view header = take(entry.offset, kLocalBytes, kLocalMagic);
    const std::uint64_t begin =
        entry.offset + kLocalBytes + number(header, 26, 2) + number(header, 28, 2);
    const std::string_view packed = take(begin, entry.packed_bytes, {});
    std::string out;
    if (entry.method == kStored) {
      out = packed;
    } else if (entry.method == kDeflated) {
      out = inflated(packed, entry);
    } else {
      throw Unimplemented("{}: {} is packed by ZIP's method {}; known are 0 and 8", file_,
                          entry.name, entry.method);
    }
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size());
    if (out.size() != entry.bytes || crc != entry.crc) {
      damaged(begin, fmt::format("{} does not have the size or checksum it should", entry.name));
    }
    return out;
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

  std::string inflated(std::string_view packed, const ZipEntry& entry) const {
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw ResourceExhausted("no memory for zlib");
    // zlib does not write to its input.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    std::string out;
    int status = Z_OK;
    while (status == Z_OK && out.size() <= entry.bytes) {
      const std::size_t before = out.size();
      out.resize(before + std::min<std::size_t>(kPieceBytes, entry.bytes - before + 1));
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
      stream.avail_out = static_cast<uInt>(out.size() - before);
      status = inflate(&stream, Z_NO_FLUSH);
      out.resize(out.size() - stream.avail_out);
    }
    inflateEnd(&stream);
    if (status != Z_STREAM_END) damaged(entry.offset, entry.name + " cannot be unpacked");
    return out;
  }

  std::string_view bytes_;
  std::string_view file_;
  std::vector<ZipEntry> entries_{};
};

}  // namespace

NpyArray read_npz(const Path& path, std::string_view name) {
  return parse_npz(read_file(path, kMostBytes), path.string(), name);
}

NpyArray parse_npz(std::string_view bytes, std::string_view file, std::string_view name) {
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
  return parse_npy(archive.read(*found), fmt::format("{}[{}]", file, found->name));
}

}  // namespace muster
