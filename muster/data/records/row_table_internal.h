#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/records/record_table.h"

namespace muster {

/// Where the rows of a plain text file are in it, noted while they are read.
class RowPlaces {
 public:
  /// `status` is the file's before the first row. Beyond `most` rows nothing is kept.
  RowPlaces(Path path, FileStatus status, std::uint64_t most)
      : path_(std::move(path)), status_(status), most_(most) {}

  void add(std::uint64_t offset, std::uint64_t bytes);
  /// The file has ended, after this many bytes.
  void end(std::uint64_t bytes) { end_ = bytes; }
  /// The rows, as views into a mapping of the file. Nothing before the end, where rows were not
  /// kept, and where the file is another one now.
  std::shared_ptr<const RecordTable> table() const;

  struct Place {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
  };

 private:
  Path path_;
  FileStatus status_;
  std::uint64_t most_;
  std::vector<Place> places_;
  bool kept_ = true;
  std::optional<std::uint64_t> end_;
};

}  // namespace muster
