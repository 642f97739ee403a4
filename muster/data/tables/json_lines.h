#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/records/compression.h"
#include "muster/data/tables/table.h"

namespace muster {

struct JsonLinesOptions {
  /// The columns to read and their types: of lists, of values inside objects as "address.city".
  /// Other members of a line are passed over. Empty: all columns that the first rows have.
  std::vector<TableField> fields{};
  /// Names of columns to read among those that the first rows have, where `fields` is empty; none:
  /// all.
  std::vector<std::string> columns{};
  /// First rows that are looked at for columns and their types.
  std::uint64_t guess_rows = 1000;
  std::size_t block_rows = 4096;
  /// A longer line is an error.
  std::size_t max_line_bytes = std::size_t{16} << 20;
  Compression compression = Compression::kAuto;
};

/// Opens a file with one JSON object a line (JSON lines, NDJSON): its rows as blocks of columns. A
/// missing member and null are missing values; empty lines are passed over; the file may be
/// compressed. Going to a row reads up to it. Throws NotFound; InvalidArgument, naming file and
/// line, for what is no object or does not fit its column.
std::unique_ptr<TableReader> open_json_lines(const Path& path, JsonLinesOptions options = {});

/// The same over text in memory, which must outlive the reader.
std::unique_ptr<TableReader> open_json_lines(std::string_view text, const std::string& name,
                                             JsonLinesOptions options = {});

}  // namespace muster
