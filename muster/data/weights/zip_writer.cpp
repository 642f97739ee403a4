#include <zlib.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/data/weights/zip_writer_internal.h"

namespace muster {
namespace {

constexpr std::uint64_t kLargest = 0xFFFFFFFF;
constexpr std::uint64_t kMostEntries = 0xFFFF;
// Their length has 16 bits.
constexpr std::size_t kMostEntryNameBytes = 0xFFFF;
constexpr std::size_t kShownEntryNameBytes = 60;
constexpr std::uint64_t kLocalHeaderBytes = 30;
// An extra field of bytes that mean nothing, as PyTorch has it.
constexpr std::uint64_t kPaddingField = 0x4246;
constexpr std::uint64_t kSizesField = 1;
// The date 1980-01-01, the first that there is.
constexpr std::uint64_t kFirstDate = 0x21;

void append(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

/// Version, flags, method, time, date and checksum, as both records of a file have them.
void append_common(std::string& out, bool is_large, std::uint32_t crc) {
  append(out, is_large ? 45 : 20, 2);
  // Names are UTF-8.
  append(out, 1 << 11, 2);
  append(out, 0, 2);
  append(out, 0, 2);
  append(out, kFirstDate, 2);
  append(out, crc, 4);
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  file_.write(bytes);
  at_ += bytes.size();
}

void ZipWriter::add(std::string_view name, std::string_view content, std::uint64_t alignment) {
  if (name.size() > kMostEntryNameBytes) {
    throw InvalidArgument("a ZIP archive has no place for a name of {} bytes, at most {}: '{}...'",
                          name.size(), kMostEntryNameBytes, name.substr(0, kShownEntryNameBytes));
  }
  const Entry entry{.name = std::string(name),
                    .crc = static_cast<std::uint32_t>(
                        crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size())),
                    .bytes = content.size(),
                    .offset = at_};
  const bool is_large = entry.bytes >= kLargest;
  std::string extra;
  if (is_large) {
    append(extra, kSizesField, 2);
    append(extra, 16, 2);
    append(extra, entry.bytes, 8);
    append(extra, entry.bytes, 8);
  }
  const std::uint64_t begin = at_ + kLocalHeaderBytes + name.size() + extra.size() + 4;
  const std::uint64_t padding = (alignment - begin % alignment) % alignment;
  append(extra, kPaddingField, 2);
  append(extra, padding, 2);
  extra.append(padding, 'Z');

  std::string header{"PK\x03\x04", 4};
  append_common(header, is_large, entry.crc);
  append(header, std::min(entry.bytes, kLargest), 4);
  append(header, std::min(entry.bytes, kLargest), 4);
  append(header, name.size(), 2);
  append(header, extra.size(), 2);
  header += name;
  write(header + extra);
  write(content);
  entries_.push_back(entry);
}

void ZipWriter::finish() {
  const std::uint64_t begin = at_;
  for (const Entry& entry : entries_) {
    std::string extra;
    const bool is_large = entry.bytes >= kLargest || entry.offset >= kLargest;
    if (entry.bytes >= kLargest) {
      append(extra, entry.bytes, 8);
      append(extra, entry.bytes, 8);
    }
    if (entry.offset >= kLargest) append(extra, entry.offset, 8);
    std::string header{"PK\x01\x02", 4};
    append(header, is_large ? 45 : 20, 2);
    append_common(header, is_large, entry.crc);
    append(header, std::min(entry.bytes, kLargest), 4);
    append(header, std::min(entry.bytes, kLargest), 4);
    append(header, entry.name.size(), 2);
    append(header, extra.empty() ? 0 : extra.size() + 4, 2);
    // Comment, disk and attributes.
    append(header, 0, 10);
    append(header, std::min(entry.offset, kLargest), 4);
    header += entry.name;
    if (!extra.empty()) {
      append(header, kSizesField, 2);
      append(header, extra.size(), 2);
    }
    write(header + extra);
  }
  const std::uint64_t count = entries_.size();
  const std::uint64_t size = at_ - begin;
  std::string end;
  if (begin >= kLargest || count >= kMostEntries) {
    const std::uint64_t place = at_;
    end += std::string_view{"PK\x06\x06", 4};
    append(end, 44, 8);
    append(end, 45, 2);
    append(end, 45, 2);
    append(end, 0, 8);
    append(end, count, 8);
    append(end, count, 8);
    append(end, size, 8);
    append(end, begin, 8);
    end += std::string_view{"PK\x06\x07", 4};
    append(end, 0, 4);
    append(end, place, 8);
    append(end, 1, 4);
  }
  end += std::string_view{"PK\x05\x06", 4};
  append(end, 0, 4);
  append(end, std::min(count, kMostEntries), 2);
  append(end, std::min(count, kMostEntries), 2);
  append(end, std::min(size, kLargest), 4);
  append(end, std::min(begin, kLargest), 4);
  append(end, 0, 2);
  write(end);
  file_.commit();
}

}  // namespace muster
