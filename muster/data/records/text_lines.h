#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "muster/data/records/compression.h"
#include "muster/data/records/record_source.h"

namespace muster {

struct TextLineOptions {
  /// Lines passed over at the start of every file.
  std::uint64_t skip_header_lines = 0;
  /// A longer line is an error: the file is hardly text.
  std::size_t max_line_bytes = std::size_t{16} << 20;
  Compression compression = Compression::kAuto;
};

/// Opens a text file: one record is one line without its end, which is LF or CRLF. The last line
/// needs none. Empty lines are records. Throws NotFound.
std::unique_ptr<RecordSource> open_text_lines(const Path& path,
                                              const TextLineOptions& options = {});

}  // namespace muster
