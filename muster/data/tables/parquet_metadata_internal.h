#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/tables/table.h"

namespace muster::parquet_internal {

/// Types of values as pages hold them, with the numbers of the format.
enum class PhysicalType : std::uint8_t {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,
  kFloat = 4,
  kDouble = 5,
  kByteArray = 6,
  kFixedLengthByteArray = 7,
};

/// How a stored value becomes one of a table.
enum class Conversion : std::uint8_t {
  kNone,
  kUint32,
  kUint64,
  /// Nanoseconds of a day and a Julian day, into nanoseconds since 1970.
  kInt96,
  kHalf,
  /// A whole number, divided by a power of ten.
  kDecimal,
};

/// A column with values: a leaf of the schema.
struct Leaf {
  TableField field{};
  PhysicalType physical = PhysicalType::kInt32;
  Conversion conversion = Conversion::kNone;
  /// Bytes of one kFixedLengthByteArray.
  std::size_t width = 0;
  /// Digits after the point, for kDecimal.
  int scale = 0;
  std::uint32_t max_definition = 0;
  /// For each list around a value, outermost first: the definition level of its elements.
  std::vector<std::uint32_t> list_levels{};
  /// Why the column cannot be read; empty where it can.
  std::string obstacle{};
};

/// The pages of one column in one row group.
struct ColumnChunk {
  std::int32_t codec = 0;
  std::uint64_t first_page = 0;
  std::uint64_t values = 0;
  /// Why these pages cannot be read; empty where they can.
  std::string obstacle{};
};

struct RowGroup {
  std::uint64_t rows = 0;
  /// One a leaf.
  std::vector<ColumnChunk> columns{};
};

struct FileMetadata {
  std::uint64_t rows = 0;
  std::vector<Leaf> leaves{};
  std::vector<RowGroup> row_groups{};
  std::string created_by{};
};

/// The end of a file, where its metadata is.
struct Footer {
  std::string_view metadata{};
  std::uint64_t offset = 0;
};

/// Finds the footer in the bytes of a file. Throws DataLoss for what is no Parquet file, and
/// Unimplemented for one whose footer is encrypted.
Footer find_footer(std::string_view file);

/// Reads a footer and checks it: the schema is a tree, every row group has a chunk of each leaf,
/// pages begin before the footer. Throws DataLoss.
FileMetadata parse_metadata(const Footer& footer);

enum class PageType : std::uint8_t { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };

struct PageHeader {
  PageType type = PageType::kData;
  std::uint32_t stored_bytes = 0;
  std::uint32_t plain_bytes = 0;
  bool has_crc = false;
  std::uint32_t crc = 0;
  std::uint32_t values = 0;
  std::int32_t encoding = 0;
  /// Encodings of the levels of kData.
  std::int32_t definition_encoding = 3;
  std::int32_t repetition_encoding = 3;
  /// Lengths of the levels of kDataV2, which are not compressed.
  std::uint32_t definition_bytes = 0;
  std::uint32_t repetition_bytes = 0;
  bool is_compressed = true;
  /// Bytes of the header itself.
  std::size_t header_bytes = 0;
};

/// The header that `bytes` begin with. Throws DataLoss.
PageHeader parse_page_header(std::string_view bytes);

}  // namespace muster::parquet_internal
