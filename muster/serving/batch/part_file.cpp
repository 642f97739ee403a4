#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/serving/batch/part_file_internal.h"

namespace muster::serving {
namespace {

// Lines are handed to the system in pieces of this size.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

}  // namespace

PartFile::PartFile(const Path& path, std::uint64_t saved_bytes, std::uint32_t saved_crc32c)
    : file_(path, O_RDWR | O_CREAT), bytes_(saved_bytes), crc32c_(saved_crc32c) {
  if (::ftruncate(file_.get(), static_cast<off_t>(saved_bytes)) != 0 ||
      ::lseek(file_.get(), 0, SEEK_END) < 0) {
    throw_errno(errno, "cutting " + path.string());
  }
}

void PartFile::add_line(std::string_view line) {
  pending_ += line;
  pending_ += '\n';
  if (pending_.size() >= kPieceBytes) flush();
}

void PartFile::add_lines(std::string_view lines) {
  pending_ += lines;
  if (pending_.size() >= kPieceBytes) flush();
}

void PartFile::flush() {
  std::string_view left = pending_;
  while (!left.empty()) {
    const ssize_t count = ::write(file_.get(), left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno(errno, "writing " + file_.path().string());
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  bytes_ += pending_.size();
  crc32c_ = muster::crc32c(pending_, crc32c_);
  pending_.clear();
}

void PartFile::sync() const {
  if (::fdatasync(file_.get()) != 0) throw_errno(errno, "syncing " + file_.path().string());
}

}  // namespace muster::serving
