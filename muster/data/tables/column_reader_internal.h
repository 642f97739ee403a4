#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/data/tables/parquet_metadata_internal.h"
#include "muster/data/tables/table.h"

namespace muster::parquet_internal {

struct ColumnReaderOptions {
  bool verify_checksums = true;
  /// Values of one block, those of lists counted.
  std::size_t max_block_values = 0;
};

/// One column of one row group, from its first row to its last.
class ColumnReader {
 public:
  virtual ~ColumnReader() = default;
  /// The next rows. Throws DataLoss where there are fewer.
  virtual TableColumn read(std::size_t rows) = 0;
  virtual void skip(std::uint64_t rows) = 0;
};

/// Bytes of pages: a file up to its footer.
struct PagesOfFile {
  std::string_view bytes{};
  std::shared_ptr<const void> owner{};
};

/// Reads a column; `leaf` and `chunk` must outlive the reader. What it throws names the column and
/// the page's offset. Throws Unimplemented for a column with an obstacle.
std::unique_ptr<ColumnReader> make_column_reader(PagesOfFile pages, const Leaf& leaf,
                                                 const ColumnChunk& chunk,
                                                 const ColumnReaderOptions& options);

}  // namespace muster::parquet_internal
