#include "muster/data/checkpoint/data_file_internal.h"

#include <algorithm>

#include "muster/base/crc32c.h"

namespace muster {
namespace {

// Fits the second-level cache beside what the kernel copies it to.
constexpr std::size_t kChunkBytes = std::size_t{512} << 10;

}  // namespace

DataFile::DataFile(const Path& path) : path_(path), file_(file_system_for(path).create(path)) {
  gathered_.reserve(kChunkBytes);
}

std::uint32_t DataFile::append(std::string_view bytes, std::uint32_t crc) {
  size_ += bytes.size();
  if (gathered_.size() + bytes.size() <= kChunkBytes) {
    gathered_.append(bytes);
    return crc32c(bytes, crc);
  }
  flush();
  while (!bytes.empty()) {
    const std::string_view chunk = bytes.substr(0, kChunkBytes);
    crc = crc32c(chunk, crc);
    file_->write(chunk);
    bytes.remove_prefix(chunk.size());
  }
  return crc;
}

void DataFile::flush() {
  if (!gathered_.empty()) file_->write(gathered_);
  gathered_.clear();
}

void DataFile::finish() {
  flush();
  file_->sync();
  file_->close();
}

}  // namespace muster
