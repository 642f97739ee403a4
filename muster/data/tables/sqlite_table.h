#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/tables/table.h"

namespace muster {

struct SqliteOptions {
  /// One SELECT. Rows have numbers in the order in which it gives them: without ORDER BY, another
  /// version of the database may give another order.
  std::string query{};
  /// The columns' types; empty: those of the first rows, where int64 and double are double.
  std::vector<TableField> fields{};
  std::uint64_t guess_rows = 1000;
  std::size_t block_rows = 4096;
};

/// Opens the rows of a query of an SQLite database, which is opened to be read alone; a path of a
/// local file. NULL is a missing value, a BLOB a string. Going to a row steps up to it. Throws
/// NotFound for no such file, InvalidArgument for a query that SQLite refuses, that is no SELECT or
/// whose columns have one name twice, DataLoss for a damaged database, Unimplemented where muster
/// was built without SQLite (libsqlite3-dev).
std::unique_ptr<TableReader> open_sqlite(const Path& path, SqliteOptions options);

}  // namespace muster
