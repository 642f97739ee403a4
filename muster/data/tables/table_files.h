#pragma once

#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/dataset/type_fwd.h"
#include "muster/data/tables/json_lines.h"
#include "muster/data/tables/parquet.h"
#include "muster/data/tables/sqlite_table.h"
#include "muster/data/tables/table.h"

namespace muster {

/// The rows of these files, one file after the other, in any format. Shuffling and sharding move
/// rows without copying them; a position is the number of a row, and resuming goes to it by the
/// file's own index where it has one. Paths may be patterns, as in from_files().
Dataset<TableRow> table_rows(std::vector<Path> files, TableOpener open);

/// The rows of Parquet files. Resuming skips row groups and pages without decompressing them.
Dataset<TableRow> parquet_rows(std::vector<Path> files, ParquetOptions options = {});
/// The rows of files with one JSON object a line. Resuming reads up to the row.
Dataset<TableRow> json_rows(std::vector<Path> files, JsonLinesOptions options = {});
/// The rows of a query of an SQLite database. Resuming steps up to the row.
Dataset<TableRow> sqlite_rows(Path database, SqliteOptions options);

}  // namespace muster
