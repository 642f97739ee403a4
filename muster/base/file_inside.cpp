#include "muster/base/file_inside.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "muster/base/error.h"
#include "muster/base/path_below.h"

namespace muster {
namespace {

/// Closes what it holds.
class OpenFile {
 public:
  // Without O_NONBLOCK opening a FIFO would wait for a writer.
  explicit OpenFile(const Path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    if (fd_ < 0) throw_errno(errno, "opening " + path.string());
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::uint64_t size_of_regular() const {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) throw_errno(errno, "looking at " + path_.string());
    if (!S_ISREG(status.st_mode)) {
      throw InvalidArgument("{} is not a regular file: a {} is not read here", path_.string(),
                            kind_of(status.st_mode));
    }
    return static_cast<std::uint64_t>(status.st_size);
  }

  // Asked of the open file and not of its name, which may lead elsewhere a moment later.
  Path real_path() const {
    std::error_code error;
    Path real = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd_), error);
    return error ? std::filesystem::canonical(path_) : real;
  }

  std::size_t read(char* out, std::size_t bytes) const {
    for (;;) {
      const auto count = ::read(fd_, out, bytes);
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) throw_errno(errno, "reading " + path_.string());
    }
  }

 private:
  static std::string_view kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "folder";
    if (S_ISFIFO(mode)) return "FIFO";
    return S_ISSOCK(mode) ? "socket" : "device";
  }

  const Path path_;
  const int fd_;
};

void check_inside(const Path& real, const Path& folder, const Path& named) {
  const Path root = std::filesystem::canonical(folder.empty() ? Path(".") : folder);
  const auto [end, unused] = std::mismatch(root.begin(), root.end(), real.begin(), real.end());
  if (end == root.end()) return;
  throw InvalidArgument("{} leads to {}, outside of {}: put a copy of the file in its place",
                        named.string(), real.string(), folder.string());
}

bool is_on_this_host(const Path& path) {
  return path.native().find("://") == std::string::npos || path.native().starts_with("file://");
}

}  // namespace

void check_file_inside(const Path& folder, const Path& name) {
  if (!is_on_this_host(folder)) {
    path_below(folder, name.native());
    return;
  }
  const Path local = strip_file_scheme(folder);
  const Path path = local / name;
  const OpenFile file(path);
  file.size_of_regular();
  check_inside(file.real_path(), local, path);
}

std::string read_file_inside(const Path& folder, const Path& name, std::uint64_t limit_bytes) {
  if (!is_on_this_host(folder)) return read_file(path_below(folder, name.native()), limit_bytes);
  const Path local = strip_file_scheme(folder);
  const Path path = local / name;
  const OpenFile file(path);
  const std::uint64_t size = file.size_of_regular();
  check_inside(file.real_path(), local, path);
  constexpr std::uint64_t kMore = std::uint64_t{64} << 10;
  std::string bytes;
  // The size is a hint: the file may grow while it is read.
  for (std::uint64_t piece = std::min(size, limit_bytes) + 1;; piece = kMore) {
    const std::size_t before = bytes.size();
    bytes.resize(before + piece);
    const std::size_t count = file.read(bytes.data() + before, piece);
    bytes.resize(before + count);
    if (bytes.size() > limit_bytes) {
      throw ResourceExhausted("{} is larger than the {} bytes that are allowed here", path.string(),
                              limit_bytes);
    }
    if (count == 0) return bytes;
  }
}

}  // namespace muster
