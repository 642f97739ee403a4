#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"
#include "muster/data/records/record_writer.h"

namespace muster::serving {

/// TFRecord files of a folder, one after another, of which the oldest are removed: requests-TIME-
/// PROCESS-NUMBER.tfrecord. Other processes may write to the folder, too. Belongs to one thread.
class RotatedRecords {
 public:
  struct Limits {
    /// A new file is begun before one gets larger.
    std::uint64_t file_bytes = 0;
    /// All files of the folder together, the one that grows with the size that it may get.
    std::uint64_t folder_bytes = 0;
  };

  RotatedRecords(Path folder, const Limits& limits);

  /// Throws what the file system throws; the next record is then tried in a file of its own.
  void append(std::string_view record);
  /// Shows readers what was appended.
  void flush();
  void close();

 private:
  void open_next();
  void remove_old() const;

  const Path folder_;
  const Limits limits_;
  int next_number_ = 0;
  std::uint64_t written_ = 0;
  std::optional<RecordWriter> file_{};
};

}  // namespace muster::serving
