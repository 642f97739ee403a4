#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "muster/data/records/record_source.h"

namespace muster {

/// The lines of a text file, as open_text_lines() gives them, and where they begin: a reader that
/// has kept some offsets goes to the lines after them at once.
class LineFile : public RecordSource {
 public:
  using RecordSource::seek;

  /// Where the line that next() will give begins, in bytes of the file. Nothing in a compressed
  /// one.
  virtual std::optional<std::uint64_t> offset() const = 0;
  /// Goes to line `number`, counted from 0, which begins at `offset`. Throws DataLoss if no line
  /// begins there, and FailedPrecondition for a file without offsets.
  virtual void seek(std::uint64_t number, std::uint64_t offset) = 0;
};

/// Throws NotFound.
std::unique_ptr<LineFile> open_line_file(const Path& path);

}  // namespace muster
