#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster {

/// One data file of a bundle being written. Small pieces are gathered, so that the disk sees few
/// large writes; the checksum of a large one is taken a chunk at a time, just before the chunk is
/// written, so that it comes from memory once.
class DataFile {
 public:
  explicit DataFile(const Path& path);

  /// Appends and returns the CRC-32C of bytes whose beginning has the CRC-32C `crc`.
  std::uint32_t append(std::string_view bytes, std::uint32_t crc = 0);
  /// Returns when all is on the disk, and closes the file.
  void finish();

  std::uint64_t size() const { return size_; }
  const Path& path() const { return path_; }

 private:
  void flush();

  Path path_;
  std::unique_ptr<WritableFile> file_;
  std::string gathered_;
  std::uint64_t size_ = 0;
};

}  // namespace muster
