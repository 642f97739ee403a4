#include "muster/data/records/record_index.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/unaligned.h"

namespace muster {
namespace {

constexpr std::string_view kIndexMagic = "MUSTRIDX";
constexpr std::uint32_t kVersion = 1;
/// Records that share one base offset.
constexpr std::uint64_t kBlockRecords = 128;

/// The bytes before the blocks. All numbers are little-endian.
struct Header {
  char magic[8];
  std::uint32_t version;
  /// 0 when there are no offsets, else 4 or 8.
  std::uint32_t entry_bytes;
  std::uint64_t file_bytes;
  std::int64_t file_modified_ns;
  std::uint64_t count;
  std::uint32_t blocks_crc;
  /// Checksum of the bytes before it.
  std::uint32_t header_crc;
};
static_assert(sizeof(Header) == 48);

std::string_view bytes_of(const Header& header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

std::uint32_t crc_of(const Header& header) {
  return mask_crc(crc32c(bytes_of(header).substr(0, offsetof(Header, header_crc))));
}

std::uint64_t block_bytes(std::uint32_t entry_bytes) {
  return sizeof(std::uint64_t) + kBlockRecords * entry_bytes;
}

/// Bytes that the blocks of `count` records take; the last block is cut after its last entry.
std::uint64_t blocks_bytes(std::uint64_t count, std::uint32_t entry_bytes) {
  if (entry_bytes == 0) return 0;
  const std::uint64_t blocks = count / kBlockRecords + (count % kBlockRecords != 0);
  return blocks * sizeof(std::uint64_t) + count * entry_bytes;
}

template <typename Entry>
void append_number(std::string& out, Entry number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

template <typename Entry>
void append_blocks(std::string& out, const std::vector<std::uint64_t>& offsets) {
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::uint64_t base = offsets[i - i % kBlockRecords];
    if (i % kBlockRecords == 0) append_number(out, base);
    append_number(out, static_cast<Entry>(offsets[i] - base));
  }
}

bool fits_four_bytes(const std::vector<std::uint64_t>& offsets) {
  for (std::size_t first = 0; first < offsets.size(); first += kBlockRecords) {
    const std::size_t last = std::min(first + kBlockRecords, offsets.size()) - 1;
    if (offsets[last] - offsets[first] > UINT32_MAX) return false;
  }
  return true;
}

/// `image` has room for the header in front of the blocks.
std::string finish(std::string image, std::uint32_t entry_bytes, std::uint64_t count,
                   const FileStatus& status) {
  Header header{};
  kIndexMagic.copy(header.magic, sizeof(header.magic));
  header.version = kVersion;
  header.entry_bytes = entry_bytes;
  header.file_bytes = status.size_bytes;
  header.file_modified_ns = status.modified_ns;
  header.count = count;
  header.blocks_crc = mask_crc(crc32c(std::string_view(image).substr(sizeof(Header))));
  header.header_crc = crc_of(header);
  std::memcpy(image.data(), &header, sizeof(header));
  return image;
}

Header read_header(std::string_view bytes, const std::string& name) {
  if (bytes.size() < sizeof(Header)) {
    throw DataLoss(
        "{}: an index has at least {} bytes, this has {}; rebuild it with `muster records "
        "index`",
        name, sizeof(Header), bytes.size());
  }
  const auto header = load_unaligned<Header>(bytes.data());
  if (std::string_view(header.magic, sizeof(header.magic)) != kIndexMagic) {
    throw DataLoss(
        "{} at byte 0: not an index of a TFRecord file; remove it, or rebuild it with "
        "`muster records index`",
        name);
  }
  if (header.version != kVersion) {
    throw FailedPrecondition(
        "{}: an index of version {}, this program knows {}; rebuild it with "
        "`muster records index`",
        name, header.version, kVersion);
  }
  return header;
}

void check(const Header& header, std::string_view blocks, const std::string& name) {
  const auto fail = [&](std::string_view why) {
    throw DataLoss("{}: {}; rebuild it with `muster records index`", name, why);
  };
  if (header.header_crc != crc_of(header))
    fail("the header does not match its checksum at byte 44");
  const auto width = header.entry_bytes;
  if (width != 0 && width != 4 && width != 8) fail("the entry size at byte 12 is none of 0, 4, 8");
  // Compared before anything is multiplied, so that a huge count cannot wrap around.
  if (width != 0 && header.count > blocks.size() / width) fail("it is shorter than its count says");
  if (blocks.size() != blocks_bytes(header.count, width)) fail("its size does not fit its count");
  if (header.blocks_crc != mask_crc(crc32c(blocks)))
    fail("the offsets do not match their checksum");
}

}  // namespace

RecordIndex::RecordIndex(std::string_view bytes, std::shared_ptr<const void> owner,
                         const std::string& name)
    : bytes_(bytes), owner_(std::move(owner)) {
  const Header header = read_header(bytes, name);
  check(header, bytes.substr(sizeof(Header)), name);
  count_ = header.count;
  file_bytes_ = header.file_bytes;
  file_modified_ns_ = header.file_modified_ns;
  entry_bytes_ = header.entry_bytes;
}

Path RecordIndex::path_for(const Path& file) { return file.string() + ".index"; }

RecordIndex RecordIndex::from_offsets(const std::vector<std::uint64_t>& offsets,
                                      const FileStatus& status) {
  std::string image(sizeof(Header), '\0');
  const std::uint32_t width = fits_four_bytes(offsets) ? 4 : 8;
  image.reserve(image.size() + blocks_bytes(offsets.size(), width));
  if (width == 4) {
    append_blocks<std::uint32_t>(image, offsets);
  } else {
    append_blocks<std::uint64_t>(image, offsets);
  }
  return parse(finish(std::move(image), width, offsets.size(), status), "a new index");
}

RecordIndex RecordIndex::from_count(std::uint64_t count, const FileStatus& status) {
  return parse(finish(std::string(sizeof(Header), '\0'), 0, count, status), "a new index");
}

RecordIndex RecordIndex::build(const Path& file, RecordReaderOptions options) {
  // Taken first: a file that changes while it is read gives an index that is stale at once.
  const auto status = file_system_for(file).status(file);
  if (!status) throw NotFound("no such file: {}", file.string());
  RecordReader reader(file, std::move(options));
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t offset = reader.offset(); reader.next(); offset = reader.offset()) {
    offsets.push_back(offset);
  }
  if (reader.compression() != Compression::kNone) return from_count(offsets.size(), *status);
  return from_offsets(offsets, *status);
}

RecordIndex RecordIndex::parse(std::string_view bytes, const std::string& name) {
  auto copy = std::make_shared<const std::string>(bytes);
  const std::string_view view = *copy;
  return RecordIndex(view, std::move(copy), name);
}

RecordIndex RecordIndex::load(const Path& file) {
  const Path path = path_for(file);
  auto mapping = file_system_for(path).map(path, Access::kRandom);
  const std::string_view view = mapping->bytes();
  RecordIndex index(view, std::move(mapping), path.string());
  const auto status = file_system_for(file).status(file);
  if (!status) throw NotFound("{} has an index, but is not there itself", file.string());
  if (status->size_bytes != index.file_bytes_ || status->modified_ns != index.file_modified_ns_) {
    throw FailedPrecondition(
        "{} is stale: {} has changed since (then {} bytes, now {}); rebuild it with `muster "
        "records "
        "index`",
        path.string(), file.string(), index.file_bytes_, status->size_bytes);
  }
  return index;
}

std::optional<RecordIndex> RecordIndex::load_if_valid(const Path& file) {
  if (!file_exists(path_for(file))) return std::nullopt;
  try {
    return load(file);
  } catch (const Error& error) {
    log::debug("index is not used: {}", error.what());
    return std::nullopt;
  }
}

void RecordIndex::write(const Path& file) const { write_file_atomically(path_for(file), bytes_); }

std::uint64_t RecordIndex::offset(std::uint64_t number) const {
  if (number >= count_) throw OutOfRange("no record {}: the index has {}", number, count_);
  if (!has_offsets()) {
    throw FailedPrecondition(
        "this index is of a compressed file and has no offsets, only the count");
  }
  const char* block =
      bytes_.data() + sizeof(Header) + number / kBlockRecords * block_bytes(entry_bytes_);
  const char* entry = block + sizeof(std::uint64_t) + number % kBlockRecords * entry_bytes_;
  const auto base = load_unaligned<std::uint64_t>(block);
  if (entry_bytes_ == 4) return base + load_unaligned<std::uint32_t>(entry);
  return base + load_unaligned<std::uint64_t>(entry);
}

}  // namespace muster
