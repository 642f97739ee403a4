#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/records/record_source.h"
#include "muster/data/tables/table.h"
#include "muster/data/tables/table_builder_internal.h"

namespace muster {

/// How one row of a file is read.
class RowFormat {
 public:
  virtual ~RowFormat() = default;
  virtual GuessRules rules() const { return {}; }
  /// Notes which columns the row has, and of which types.
  virtual void guess(std::string_view row, TypeGuess& guess) = 0;
  /// Adds the values of the row for the columns that `builder` has. Throws for a column that it has
  /// not, if `all_columns`.
  virtual void parse(std::string_view row, bool all_columns, TableBuilder& builder) = 0;
};

struct RowTableOptions {
  std::vector<TableField> fields{};
  std::vector<std::string> columns{};
  std::uint64_t guess_rows = 1000;
  std::size_t block_rows = 4096;
};

/// A table of a file that is read row by row. Where `fields` is empty, the first rows say which
/// there are. A row that cannot be read is a failure, and the next block begins after it.
std::unique_ptr<TableReader> make_row_table_reader(
    std::string name, std::function<std::unique_ptr<RecordSource>()> open,
    std::unique_ptr<RowFormat> format, RowTableOptions options);

}  // namespace muster
