#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/open_file.h"
#include "muster/orchestration/jobs/kept_program_internal.h"

namespace muster::jobs {
namespace {

constexpr off_t kMostProgramBytes = off_t{4} << 30;
constexpr std::size_t kPieceOfProgram = std::size_t{1} << 20;

struct stat status_of(const OpenFile& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_errno(errno, "looking at " + file.path().string());
  return status;
}

bool is_same_state(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// No more than `size` bytes, whatever is appended meanwhile.
void copy_bytes(const OpenFile& from, const OpenFile& to, off_t size) {
  std::vector<char> piece(kPieceOfProgram);
  for (off_t done = 0; done < size;) {
    const ssize_t count = ::read(from.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno(errno, "reading " + from.path().string());
    if (count == 0) return;
    to.write({piece.data(), static_cast<std::size_t>(count)});
    done += count;
  }
}

}  // namespace

void copy_program(const Path& from, const Path& to) {
  const OpenFile source(from, O_RDONLY);
  const struct stat before = status_of(source);
  if (before.st_size > kMostProgramBytes) {
    throw InvalidArgument(
        "{} has {} bytes, more than the {} that --keep-program copies. Submit it without that flag",
        from.string(), before.st_size, kMostProgramBytes);
  }
  // A hard link would not do: some linkers write the new program over the old one.
  const OpenFile copy(to, O_WRONLY | O_CREAT | O_EXCL, 0700);
  if (::ioctl(copy.get(), FICLONE, source.get()) != 0) copy_bytes(source, copy, before.st_size);
  if (::fsync(copy.get()) != 0) throw_errno(errno, "syncing " + to.string());
  if (!is_same_state(before, status_of(source)) || status_of(copy).st_size != before.st_size) {
    throw FailedPrecondition("{} was written while it was copied. Submit again when it is built",
                             from.string());
  }
}

}  // namespace muster::jobs
