#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/tables/table.h"

namespace muster {

struct TextTableOptions {
  /// Names of the columns to read; none: all.
  std::vector<std::string> columns{};
  /// First rows that are looked at for columns and their types.
  std::uint64_t guess_rows = 10'000;
  std::size_t block_rows = 4096;
  /// Between the fields of CSV.
  char delimiter = ',';
  /// A field of CSV with this text is missing, as an empty one is.
  std::string na_value{};
};

/// Opens a CSV file as a table: the first row has the names of the columns, types are those of the
/// first rows (int64, double, else string). Throws NotFound; InvalidArgument, naming file and line,
/// for a row with another number of fields or a word in a column of numbers.
std::unique_ptr<TableReader> open_csv_table(const Path& path, TextTableOptions options = {});

/// Opens a TFRecord file of tf.Examples as a table: a feature is a column; it is a list where the
/// first Examples do not all have one value. Throws NotFound, and what reading records throws.
std::unique_ptr<TableReader> open_example_table(const Path& path, TextTableOptions options = {});

}  // namespace muster
