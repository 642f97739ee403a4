#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/tables/table.h"

namespace muster {

struct ParquetOptions {
  /// Names of the columns to read, in the order that they shall have; none: all. The others cost
  /// nothing.
  std::vector<std::string> columns{};
  /// Rows that are decoded at a time, at most.
  std::size_t block_rows = 32'768;
  /// Values of lists in one block and column; more are an error.
  std::size_t max_block_values = std::size_t{1} << 26;
  /// Compares pages that have a checksum with it.
  bool verify_checksums = true;
};

/// Opens a Parquet file (docs/formats/parquet.md says what is read): its rows as blocks of
/// columns. Throws NotFound for a file or a column that there is not, DataLoss, with the file, the
/// column and the offset, for damage, and Unimplemented, naming it, for what is not read.
std::unique_ptr<TableReader> open_parquet(const Path& path, ParquetOptions options = {});

/// The same over a file in memory, which `owner` keeps; `name` stands for the file in messages.
std::unique_ptr<TableReader> open_parquet(std::string_view bytes, std::shared_ptr<const void> owner,
                                          std::string name, ParquetOptions options = {});

}  // namespace muster
