#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/open_file.h"

namespace muster::serving {

/// The lines of a shard that is not published yet. What is after the last save is cut off when
/// it is opened.
class PartFile {
 public:
  PartFile(const Path& path, std::uint64_t saved_bytes, std::uint32_t saved_crc32c);

  void add_line(std::string_view line);
  /// Whole lines.
  void add_lines(std::string_view lines);
  /// Hands all lines to the system.
  void flush();
  /// Returns when what was flushed is on the disk. Any thread may call it, while others add lines.
  void sync() const;

  /// Size and checksum of the flushed lines.
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t crc32c() const { return crc32c_; }

 private:
  OpenFile file_;
  std::uint64_t bytes_;
  std::uint32_t crc32c_;
  std::string pending_{};
};

}  // namespace muster::serving
