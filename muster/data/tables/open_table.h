#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/tables/table.h"

namespace muster {

struct OpenTableOptions {
  /// Names of the columns to read, in the order that they shall have; none: all.
  std::vector<std::string> columns{};
  /// Rows that are decoded at a time, at most.
  std::size_t block_rows = 32'768;
  /// Takes other files for CSV with a header, by the ending .csv or .tsv, or TFRecords of
  /// tf.Examples.
  bool any_file = false;
  /// One SELECT, for an SQLite database.
  std::string query{};
};

/// Whether open_table() reads the file: by its first bytes, or the ending of its name.
bool is_table(const Path& path);

/// Opens a file in one of the formats of tables. Throws NotFound, and InvalidArgument, naming the
/// formats, for another file.
std::unique_ptr<TableReader> open_table(const Path& path, OpenTableOptions options = {});

}  // namespace muster
