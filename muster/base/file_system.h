#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// A path with an optional scheme: "data/train.tfrecords", "file:///data/x", "gs://bucket/x".
using Path = std::filesystem::path;

struct FileStatus {
  std::uint64_t size_bytes = 0;
  /// Nanoseconds since 1970.
  std::int64_t modified_ns = 0;
  bool is_directory = false;
};

/// A file read from front to back. Belongs to one thread.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  /// Fills `out` from the current place; fewer bytes only at the end of the file, 0 at the end.
  virtual std::size_t read(std::span<char> out) = 0;
  /// Continues at this offset.
  virtual void seek(std::uint64_t offset) = 0;
  virtual std::uint64_t size() const = 0;
};

/// A file being written. Belongs to one thread. Destroying it closes it and logs what failed;
/// close() throws instead. Nothing is buffered here: callers write in large pieces.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Writes all of `bytes`. Throws ResourceExhausted when the disk is full.
  virtual void write(std::string_view bytes) = 0;
  /// Returns when the bytes are on the disk.
  virtual void sync() = 0;
  virtual void close() = 0;
};

/// How the bytes of a mapping will be read.
enum class Access { kSequential, kRandom };

/// A whole file in memory, shared and read-only. A file that is cut short while mapped raises
/// SIGBUS on access, so map only files that are published and left alone.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::string_view bytes() const = 0;
};

/// Where files live. One object a scheme, safe to use from any thread.
/// Errors name the path; a missing file is NotFound.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::unique_ptr<ReadableFile> open(const Path& path) = 0;
  virtual std::shared_ptr<const MappedFile> map(const Path& path,
                                                Access access = Access::kSequential) = 0;
  /// Creates the file, or empties it if it is there. The folder must exist.
  virtual std::unique_ptr<WritableFile> create(const Path& path) = 0;
  /// Opens a file for writing at its end, creating it if need be.
  virtual std::unique_ptr<WritableFile> append(const Path& path) = 0;

  /// Nothing if there is no such file or folder.
  virtual std::optional<FileStatus> status(const Path& path) = 0;
  /// The names in a folder, sorted, without "." and "..".
  virtual std::vector<std::string> list(const Path& folder) = 0;
  virtual void create_directories(const Path& folder) = 0;
  /// Removes a file or an empty folder; a missing one is no error.
  virtual void remove(const Path& path) = 0;
  virtual void remove_all(const Path& path) = 0;
  /// Replaces `to` if it is there; readers see the old or the new one, never a part.
  virtual void rename(const Path& from, const Path& to) = 0;
  /// Returns when the folder's entries are on the disk.
  virtual void sync_directory(const Path& folder) = 0;
};

/// The file system that serves this path. Throws InvalidArgument for an unknown scheme, naming the
/// known ones.
FileSystem& file_system_for(const Path& path);

/// The path without "file://"; other schemes stay.
Path strip_file_scheme(const Path& path);

/// Makes a file system serve a scheme ("gs") in this process; an older one of that name is
/// replaced.
void register_file_system(std::string scheme, std::shared_ptr<FileSystem> file_system);

bool file_exists(const Path& path);
/// All bytes of a file. Throws ResourceExhausted if it is larger than `limit_bytes`.
std::string read_file(const Path& path, std::uint64_t limit_bytes = std::uint64_t{1} << 30);

/// The files that match a shell pattern, sorted. `*` and `?` stop at '/', `**` as a whole component
/// matches any number of folders, `[a-c]` and `{x,y}` work as in a shell. A path without any of
/// these stands for itself if it exists. No match is an empty list.
std::vector<Path> glob(const Path& pattern);

/// Writes a file so that it appears whole or not at all, also after a crash: bytes go to a
/// temporary name beside it, are synced, renamed, and the folder is synced. Destroyed without
/// commit() it leaves no trace.
class AtomicFile {
 public:
  /// Throws InvalidArgument for a device, a FIFO and a socket, which a rename would replace.
  explicit AtomicFile(const Path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  WritableFile& file() { return *file_; }
  void write(std::string_view bytes) { file_->write(bytes); }
  /// `durable = false` skips the syncs, for files that can be recreated.
  void commit(bool durable = true);

 private:
  Path path_;
  Path temporary_;
  std::unique_ptr<WritableFile> file_;
};

/// Replaces a file's content in one step.
void write_file_atomically(const Path& path, std::string_view bytes, bool durable = true);

/// Moves a finished temporary folder to its final name and syncs the parent. Throws AlreadyExists
/// if the name is taken.
void publish_directory(const Path& temporary, const Path& final_path);

}  // namespace muster
