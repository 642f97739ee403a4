#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "muster/base/file_system.h"
#include "muster/data/records/compression.h"

namespace muster {

struct RecordWriterOptions {
  /// kNone, kZlib or kGzip: the ones that TensorFlow reads.
  Compression compression = Compression::kNone;
  /// 0 (none) to 9 (smallest); the library's own choice if not set.
  std::optional<int> level{};
  /// The file appears under its name at close(), whole. Without it, the file grows in place.
  bool atomic = true;
  /// close() returns when the file is on the disk; false for files that can be recreated.
  bool durable = true;
  /// Also writes the side index at close().
  bool write_index = false;
};

/// Writes a TFRecord file, byte for byte as TensorFlow does. One writer belongs to one thread.
class RecordWriter {
 public:
  /// The folder must exist. Throws InvalidArgument on a compression or level that cannot be
  /// written.
  explicit RecordWriter(const Path& path, const RecordWriterOptions& options = {});
  /// Without close(), an atomic file leaves no trace; one that grows in place gets what was
  /// appended, and failures are logged.
  ~RecordWriter();
  RecordWriter(RecordWriter&&) noexcept;
  RecordWriter& operator=(RecordWriter&&) noexcept;

  void append(std::string_view record);
  /// Hands everything appended so far to the file system: a reader of a file that grows in place
  /// sees it.
  void flush();
  /// Publishes the file. Throws what the file system throws; nothing may be appended afterwards.
  void close();

  /// Records appended.
  std::uint64_t records() const;
  /// Bytes they take before compression.
  std::uint64_t bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
