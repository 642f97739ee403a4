#include "muster/data/records/text_lines.h"

#include "muster/data/records/row_source_internal.h"

namespace muster {

std::unique_ptr<RecordSource> open_text_lines(const Path& path, const TextLineOptions& options) {
  return open_rows(
      path, options.compression,
      {.skip_header_lines = options.skip_header_lines, .max_row_bytes = options.max_line_bytes});
}

}  // namespace muster
