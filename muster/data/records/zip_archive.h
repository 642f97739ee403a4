#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/records/compression.h"

namespace muster {

/// A file of a ZIP archive, as the archive's directory tells it.
struct ZipEntry {
  std::string name{};
  /// 0 for a file that is stored as it is, 8 for a deflated one.
  std::uint64_t method = 0;
  std::uint64_t crc = 0;
  std::uint64_t packed_bytes = 0;
  std::uint64_t bytes = 0;
  /// Place of its record in the archive.
  std::uint64_t offset = 0;
};

/// The directory of a ZIP archive, also one of over 4 GiB (ZIP64), whose bytes outlive this. Errors
/// are DataLoss and name the file and the offset. All functions may be called from any thread.
class ZipArchive {
 public:
  /// `file` stands for the archive in messages.
  ZipArchive(std::string_view bytes, std::string_view file);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Bytes that the archive holds of a file: its content where that is stored as it is.
  std::string_view packed(const ZipEntry& entry) const;
  /// The content of a file, unpacked on the way and checked against size and checksum. Throws
  /// Unimplemented for a method other than 0 and 8.
  std::unique_ptr<InputStream> open(const ZipEntry& entry, const DecompressionLimits& limits) const;

 private:
  [[noreturn]] void damaged(std::uint64_t offset, std::string_view what) const;
  std::string_view take(std::uint64_t offset, std::uint64_t count, std::string_view magic) const;
  void read_directory();
  std::uint64_t read_entry(std::uint64_t at);
  void read_large_sizes(ZipEntry& entry, std::uint64_t at, std::uint64_t bytes) const;

  std::string_view bytes_;
  std::string file_;
  std::vector<ZipEntry> entries_{};
};

}  // namespace muster
