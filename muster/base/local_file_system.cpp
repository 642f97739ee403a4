#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/local_file_system_internal.h"
#include "muster/base/log.h"

namespace muster {
namespace {

[[noreturn]] void fail(int error_number, std::string_view verb, const Path& path) {
  throw_errno(error_number, fmt::format("{} {}", verb, path.string()));
}

/// Owns an open file and closes it.
class Descriptor {
 public:
  Descriptor(const Path& path, int flags, std::string_view verb)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail(errno, verb, path);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct stat stat_of(int fd, const Path& path) {
  struct stat result {};
  if (::fstat(fd, &result) != 0) fail(errno, "looking at", path);
  // Linux opens a folder for reading and only then refuses; say so at once.
  if (S_ISDIR(result.st_mode)) fail(EISDIR, "reading", path);
  return result;
}

class LocalReadableFile : public ReadableFile {
 public:
  explicit LocalReadableFile(const Path& path)
      : path_(path),
        descriptor_(path, O_RDONLY, "opening"),
        size_(static_cast<std::uint64_t>(stat_of(descriptor_.get(), path).st_size)) {}

  std::size_t read(std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const auto count = ::read(descriptor_.get(), out.data() + done, out.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(errno, "reading", path_);
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

  void seek(std::uint64_t offset) override {
    if (::lseek(descriptor_.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
      fail(errno, "seeking in", path_);
    }
  }

  std::uint64_t size() const override { return size_; }

 private:
  Path path_;
  Descriptor descriptor_;
  std::uint64_t size_;
};

class LocalWritableFile : public WritableFile {
 public:
  LocalWritableFile(const Path& path, int flags)
      : path_(path), descriptor_(path, O_WRONLY | O_CREAT | flags, "creating") {}

  ~LocalWritableFile() override {
    try {
      close();
    } catch (const Error& error) {
      log::error("{}", error.what());
    }
  }

  void write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const auto count = ::write(descriptor_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(errno, "writing", path_);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  void sync() override {
    // Pipes and some special files cannot be synced, and need not be.
    if (::fsync(descriptor_.get()) != 0 && errno != EINVAL && errno != EROFS) {
      fail(errno, "syncing", path_);
    }
  }

  void close() override {
    const int fd = descriptor_.release();
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) fail(errno, "closing", path_);
  }

 private:
  Path path_;
  Descriptor descriptor_;
};

class LocalMappedFile : public MappedFile {
 public:
  LocalMappedFile(const Path& path, Access access) {
    // Opens without a wait for a writer of a FIFO, which is refused below.
    const Descriptor descriptor(path, O_RDONLY | O_NONBLOCK, "opening");
    const auto status = stat_of(descriptor.get(), path);
    if (!S_ISREG(status.st_mode)) {
      throw InvalidArgument("{} is not a regular file and cannot be mapped", path.string());
    }
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ == 0) return;  // mmap refuses an empty range.
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor.get(), 0);
    if (address == MAP_FAILED) fail(errno, "mapping", path);
    address_ = static_cast<char*>(address);
    // Advice only: a kernel that does not take it reads just the same.
    ::madvise(address, size_, access == Access::kSequential ? MADV_SEQUENTIAL : MADV_RANDOM);
  }

  ~LocalMappedFile() override {
    if (address_ != nullptr) ::munmap(address_, size_);
  }
  LocalMappedFile(const LocalMappedFile&) = delete;
  LocalMappedFile& operator=(const LocalMappedFile&) = delete;

  std::string_view bytes() const override { return {address_, size_}; }

 private:
  char* address_ = nullptr;
  std::size_t size_ = 0;
};

class LocalFileSystem : public FileSystem {
 public:
  std::unique_ptr<ReadableFile> open(const Path& path) override {
    return std::make_unique<LocalReadableFile>(strip_file_scheme(path));
  }

  std::shared_ptr<const MappedFile> map(const Path& path, Access access) override {
    return std::make_shared<LocalMappedFile>(strip_file_scheme(path), access);
  }

  std::unique_ptr<WritableFile> create(const Path& path) override {
    return std::make_unique<LocalWritableFile>(strip_file_scheme(path), O_TRUNC);
  }

  std::unique_ptr<WritableFile> append(const Path& path) override {
    return std::make_unique<LocalWritableFile>(strip_file_scheme(path), O_APPEND);
  }

  std::optional<FileStatus> status(const Path& path) override {
    struct stat result {};
    if (::stat(strip_file_scheme(path).c_str(), &result) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      fail(errno, "looking at", path);
    }
    return FileStatus{
        .size_bytes = static_cast<std::uint64_t>(result.st_size),
        .modified_ns = std::int64_t{result.st_mtim.tv_sec} * 1'000'000'000 + result.st_mtim.tv_nsec,
        .is_directory = S_ISDIR(result.st_mode)};
  }

  std::vector<std::string> list(const Path& folder) override {
    const Path local = strip_file_scheme(folder);
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(local.c_str()), ::closedir);
    if (!stream) fail(errno, "listing", folder);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) fail(errno, "listing", folder);
    std::sort(names.begin(), names.end());
    return names;
  }

  void create_directories(const Path& folder) override {
    std::error_code error;
    std::filesystem::create_directories(strip_file_scheme(folder), error);
    if (error) fail(error.value(), "making the folder", folder);
  }

  void remove(const Path& path) override {
    if (::remove(strip_file_scheme(path).c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) {
      fail(errno, "removing", path);
    }
  }

  void remove_all(const Path& path) override {
    std::error_code error;
    std::filesystem::remove_all(strip_file_scheme(path), error);
    if (error) fail(error.value(), "removing", path);
  }

  void rename(const Path& from, const Path& to) override {
    if (::rename(strip_file_scheme(from).c_str(), strip_file_scheme(to).c_str()) != 0) {
      fail(errno, fmt::format("renaming {} to", from.string()), to);
    }
  }

  void sync_directory(const Path& folder) override {
    const Path local = strip_file_scheme(folder);
    const Descriptor descriptor(local.empty() ? Path(".") : local, O_RDONLY | O_DIRECTORY,
                                "opening the folder");
    if (::fsync(descriptor.get()) != 0 && errno != EINVAL) fail(errno, "syncing", folder);
  }
};

}  // namespace

std::shared_ptr<FileSystem> make_local_file_system() { return std::make_shared<LocalFileSystem>(); }

}  // namespace muster
