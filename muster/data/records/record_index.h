#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/records/record_reader.h"

namespace muster {

/// Where the records of one TFRecord file begin: for random access and for counts without a scan. A
/// value that is cheap to copy and safe to share between threads. docs/formats/index.md has the
/// layout.
///
/// An index belongs to one state of its file, known by size and time of last change. The index of a
/// compressed file holds the count alone.
class RecordIndex {
 public:
  /// The side index's name: FILE.index.
  static Path path_for(const Path& file);

  /// Reads the file from front to back, checking it as the options say. Throws DataLoss on damage.
  static RecordIndex build(const Path& file, RecordReaderOptions options = {});
  /// For a writer that knows the offsets; `status` is the finished file's.
  static RecordIndex from_offsets(const std::vector<std::uint64_t>& offsets,
                                  const FileStatus& status);
  static RecordIndex from_count(std::uint64_t count, const FileStatus& status);

  /// Reads FILE.index. Throws NotFound if there is none, DataLoss if it is damaged,
  /// FailedPrecondition if the file has changed since; each says how to rebuild it.
  static RecordIndex load(const Path& file);
  /// load(), with nothing where there is no index; one that cannot be used gives nothing too, and a
  /// debug line in the log with the reason.
  static std::optional<RecordIndex> load_if_valid(const Path& file);
  /// An index from its bytes, which are copied. Throws DataLoss. `name` stands for the file in
  /// messages.
  static RecordIndex parse(std::string_view bytes, const std::string& name);

  /// Writes FILE.index in one step.
  void write(const Path& file) const;
  /// Bytes that write() writes.
  std::string_view bytes() const { return bytes_; }

  std::uint64_t count() const { return count_; }
  /// False for a compressed file: offset() then throws FailedPrecondition.
  bool has_offsets() const { return entry_bytes_ != 0; }
  /// Where record `number` begins, in constant time. Throws OutOfRange.
  std::uint64_t offset(std::uint64_t number) const;
  /// The size and time of the file that it belongs to.
  std::uint64_t file_bytes() const { return file_bytes_; }
  std::int64_t file_modified_ns() const { return file_modified_ns_; }

 private:
  RecordIndex(std::string_view bytes, std::shared_ptr<const void> owner, const std::string& name);

  std::string_view bytes_;
  std::shared_ptr<const void> owner_;
  std::uint64_t count_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::int64_t file_modified_ns_ = 0;
  std::uint32_t entry_bytes_ = 0;
};

}  // namespace muster
