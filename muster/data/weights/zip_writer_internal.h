#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// Writes a ZIP archive of files that are stored as they are; with ZIP64 where a size or place
/// needs it. The file appears when it is whole.
class ZipWriter {
 public:
  explicit ZipWriter(const Path& path) : file_(path) {}

  /// Content begins at a multiple of `alignment` in the archive, a power of two. Throws
  /// InvalidArgument for a name of more than 65,535 bytes.
  void add(std::string_view name, std::string_view content, std::uint64_t alignment = 64);
  void finish();

 private:
  struct Entry {
    std::string name{};
    std::uint32_t crc = 0;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;
  };

  void write(std::string_view bytes);

  AtomicFile file_;
  std::uint64_t at_ = 0;
  std::vector<Entry> entries_{};
};

}  // namespace muster
