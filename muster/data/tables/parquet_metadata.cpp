#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/unaligned.h"
#include "muster/data/tables/parquet_metadata_internal.h"
#include "muster/data/tables/thrift_compact_internal.h"

namespace muster::parquet_internal {
namespace {

constexpr std::string_view kParquetMagic = "PAR1";
constexpr std::string_view kEncryptedMagic = "PARE";
/// The length of the metadata and the magic, at the end of a file.
constexpr std::size_t kFooterTailBytes = 8;
/// Levels around a value: those in use are below ten.
constexpr std::size_t kMostSchemaDepth = 64;

enum class LogicalKind : std::uint8_t {
  kNone,
  kString,
  kEnum,
  kDecimal,
  kDate,
  kTime,
  kTimestamp,
  kInteger,
  kNull,
  kJson,
  kBson,
  kUuid,
  kHalf,
  kInterval,
  kList,
  kMap,
  kOther,
};

struct LogicalType {
  LogicalKind kind = LogicalKind::kNone;
  std::string_view unit{};
  int scale = 0;
  int precision = 0;
  int bits = 0;
  bool is_signed = true;
};

struct SchemaElement {
  std::optional<PhysicalType> type{};
  std::int32_t type_length = 0;
  std::int32_t repetition = 0;
  std::string name{};
  std::int32_t children = 0;
  std::int32_t converted = -1;
  std::int32_t scale = 0;
  std::int32_t precision = 0;
  LogicalType logical{};
};

constexpr std::int32_t kRequired = 0;
constexpr std::int32_t kRepeated = 2;

std::uint64_t read_count(ThriftReader& reader, const ThriftField& field) {
  const std::int64_t value = reader.read_i64(field);
  if (value < 0) reader.fail("a negative number of values, rows or bytes");
  return static_cast<std::uint64_t>(value);
}

std::uint32_t read_small_count(ThriftReader& reader, const ThriftField& field) {
  const std::int32_t value = reader.read_i32(field);
  if (value < 0) reader.fail("a negative number of values or bytes");
  return static_cast<std::uint32_t>(value);
}

std::string_view read_unit(ThriftReader& reader) {
  std::string_view unit;
  reader.read_struct([&](const ThriftField& field) {
    if (field.id == 1) unit = "milliseconds";
    if (field.id == 2) unit = "microseconds";
    if (field.id == 3) unit = "nanoseconds";
    return false;
  });
  return unit;
}

void read_logical_parameters(ThriftReader& reader, LogicalType& logical) {
  reader.read_struct([&](const ThriftField& field) {
    if (logical.kind == LogicalKind::kDecimal && field.id == 1) {
      logical.scale = reader.read_i32(field);
      return true;
    }
    if (logical.kind == LogicalKind::kDecimal && field.id == 2) {
      logical.precision = reader.read_i32(field);
      return true;
    }
    const bool is_time =
        logical.kind == LogicalKind::kTime || logical.kind == LogicalKind::kTimestamp;
    if (is_time && field.id == 2 && field.type == ThriftType::kStruct) {
      logical.unit = read_unit(reader);
      return true;
    }
    if (logical.kind == LogicalKind::kInteger && field.id == 1) {
      logical.bits = reader.read_byte(field);
      return true;
    }
    if (logical.kind == LogicalKind::kInteger && field.id == 2) {
      logical.is_signed = reader.read_bool(field);
      return true;
    }
    return false;
  });
}

LogicalKind logical_kind(std::int32_t id) {
  switch (id) {
    case 1:
      return LogicalKind::kString;
    case 2:
      return LogicalKind::kMap;
    case 3:
      return LogicalKind::kList;
    case 4:
      return LogicalKind::kEnum;
    case 5:
      return LogicalKind::kDecimal;
    case 6:
      return LogicalKind::kDate;
    case 7:
      return LogicalKind::kTime;
    case 8:
      return LogicalKind::kTimestamp;
    case 10:
      return LogicalKind::kInteger;
    case 11:
      return LogicalKind::kNull;
    case 12:
      return LogicalKind::kJson;
    case 13:
      return LogicalKind::kBson;
    case 14:
      return LogicalKind::kUuid;
    case 15:
      return LogicalKind::kHalf;
    default:
      return LogicalKind::kOther;
  }
}

LogicalType read_logical_type(ThriftReader& reader) {
  LogicalType logical;
  reader.read_struct([&](const ThriftField& field) {
    if (field.type != ThriftType::kStruct) return false;
    logical.kind = logical_kind(field.id);
    read_logical_parameters(reader, logical);
    return true;
  });
  return logical;
}

SchemaElement read_schema_element(ThriftReader& reader) {
  SchemaElement element;
  reader.read_struct([&](const ThriftField& field) {
    switch (field.id) {
      case 1: {
        const std::int32_t type = reader.read_i32(field);
        if (type < 0 || type > 7) reader.fail("a column of unknown type");
        element.type = static_cast<PhysicalType>(type);
        return true;
      }
      case 2:
        element.type_length = reader.read_i32(field);
        return true;
      case 3:
        element.repetition = reader.read_i32(field);
        if (element.repetition < kRequired || element.repetition > kRepeated) {
          reader.fail("a column of unknown repetition");
        }
        return true;
      case 4:
        element.name = reader.read_binary(field);
        return true;
      case 5:
        element.children = reader.read_i32(field);
        if (element.children < 0) reader.fail("a negative number of columns");
        return true;
      case 6:
        element.converted = reader.read_i32(field);
        return true;
      case 7:
        element.scale = reader.read_i32(field);
        return true;
      case 8:
        element.precision = reader.read_i32(field);
        return true;
      case 10:
        reader.expect(field, ThriftType::kStruct);
        element.logical = read_logical_type(reader);
        return true;
      default:
        return false;
    }
  });
  return element;
}

/// The logical type that older writers mean.
LogicalType logical_of_converted(const SchemaElement& element) {
  switch (element.converted) {
    case 0:
      return {.kind = LogicalKind::kString};
    case 4:
      return {.kind = LogicalKind::kEnum};
    case 5:
      return {
          .kind = LogicalKind::kDecimal, .scale = element.scale, .precision = element.precision};
    case 6:
      return {.kind = LogicalKind::kDate};
    case 7:
      return {.kind = LogicalKind::kTime, .unit = "milliseconds"};
    case 8:
      return {.kind = LogicalKind::kTime, .unit = "microseconds"};
    case 9:
      return {.kind = LogicalKind::kTimestamp, .unit = "milliseconds"};
    case 10:
      return {.kind = LogicalKind::kTimestamp, .unit = "microseconds"};
    case 11:
    case 12:
    case 13:
    case 14:
      return {
          .kind = LogicalKind::kInteger, .bits = 8 << (element.converted - 11), .is_signed = false};
    case 15:
    case 16:
    case 17:
    case 18:
      return {
          .kind = LogicalKind::kInteger, .bits = 8 << (element.converted - 15), .is_signed = true};
    case 19:
      return {.kind = LogicalKind::kJson};
    case 20:
      return {.kind = LogicalKind::kBson};
    case 21:
      return {.kind = LogicalKind::kInterval};
    default:
      return {};
  }
}

void set_whole_number(Leaf& leaf, const LogicalType& logical, TableType type) {
  leaf.field.type = type;
  if (logical.kind == LogicalKind::kInteger && !logical.is_signed) {
    if (logical.bits == 32 && type == TableType::kInt32) {
      leaf.conversion = Conversion::kUint32;
      leaf.field.type = TableType::kInt64;
    }
    if (logical.bits == 64) leaf.conversion = Conversion::kUint64;
  }
  if (logical.kind == LogicalKind::kDate) leaf.field.meaning = "days since 1970-01-01";
  if (logical.kind == LogicalKind::kTime) {
    leaf.field.meaning = fmt::format("{} since midnight", logical.unit);
  }
  if (logical.kind == LogicalKind::kTimestamp) {
    leaf.field.meaning = fmt::format("{} since 1970-01-01", logical.unit);
  }
}

/// Bytes of the widest decimal number that is read.
constexpr std::size_t kMostDecimalBytes = 16;
constexpr int kMostDecimalDigits = 38;

void set_decimal(Leaf& leaf, const LogicalType& logical) {
  leaf.field.type = TableType::kDouble;
  leaf.conversion = Conversion::kDecimal;
  leaf.scale = logical.scale;
  leaf.field.meaning = fmt::format("decimal({}, {})", logical.precision, logical.scale);
  if (leaf.width > kMostDecimalBytes || logical.scale < 0 || logical.scale > kMostDecimalDigits) {
    leaf.obstacle =
        fmt::format("{} has more than {} digits", leaf.field.meaning, kMostDecimalDigits);
  }
}

void set_bytes(Leaf& leaf, const LogicalType& logical) {
  leaf.field.type = TableType::kString;
  if (logical.kind == LogicalKind::kUuid) leaf.field.meaning = "16 bytes of a UUID";
  if (logical.kind == LogicalKind::kInterval) leaf.field.meaning = "12 bytes of an interval";
  if (logical.kind == LogicalKind::kHalf && leaf.width == 2) {
    leaf.field.type = TableType::kFloat;
    leaf.conversion = Conversion::kHalf;
  }
}

void set_type(Leaf& leaf, const SchemaElement& element) {
  const LogicalType logical =
      element.logical.kind == LogicalKind::kNone ? logical_of_converted(element) : element.logical;
  leaf.physical = *element.type;
  if (leaf.physical == PhysicalType::kFixedLengthByteArray) {
    if (element.type_length <= 0) throw DataLoss("column {}: values of no length", leaf.field.name);
    leaf.width = static_cast<std::size_t>(element.type_length);
  }
  if (logical.kind == LogicalKind::kDecimal && leaf.physical != PhysicalType::kBoolean &&
      leaf.physical != PhysicalType::kFloat && leaf.physical != PhysicalType::kDouble &&
      leaf.physical != PhysicalType::kInt96) {
    return set_decimal(leaf, logical);
  }
  switch (leaf.physical) {
    case PhysicalType::kBoolean:
      leaf.field.type = TableType::kBool;
      return;
    case PhysicalType::kInt32:
      return set_whole_number(leaf, logical, TableType::kInt32);
    case PhysicalType::kInt64:
      return set_whole_number(leaf, logical, TableType::kInt64);
    case PhysicalType::kInt96:
      leaf.field.type = TableType::kInt64;
      leaf.conversion = Conversion::kInt96;
      leaf.field.meaning = "nanoseconds since 1970-01-01";
      return;
    case PhysicalType::kFloat:
      leaf.field.type = TableType::kFloat;
      return;
    case PhysicalType::kDouble:
      leaf.field.type = TableType::kDouble;
      return;
    case PhysicalType::kByteArray:
    case PhysicalType::kFixedLengthByteArray:
      return set_bytes(leaf, logical);
  }
}

/// Where the walk through the schema is: the names, and the levels so far.
struct SchemaPlace {
  std::string name{};
  std::uint32_t definition = 0;
  std::vector<std::uint32_t> list_levels{};
};

/// The schema is a tree, written as a list in which children follow their parent.
class SchemaWalk {
 public:
  explicit SchemaWalk(const std::vector<SchemaElement>& elements) : elements_(elements) {}

  std::vector<Leaf> leaves() {
    if (elements_.empty()) throw DataLoss("a schema without a root");
    const std::int32_t children = elements_[next_++].children;
    for (std::int32_t i = 0; i < children; ++i) visit({}, 0, Role::kNamed, false);
    if (next_ != elements_.size())
      throw DataLoss("a schema with more columns than its groups have");
    return std::move(leaves_);
  }

 private:
  const SchemaElement& take() {
    if (next_ >= elements_.size())
      throw DataLoss("a schema with fewer columns than its groups have");
    return elements_[next_++];
  }

  /// Part of an element in the name of a column: the repeated group in a list and the only element
  /// in that have none.
  enum class Role : std::uint8_t { kNamed, kRepeatedGroup, kOnlyElement };

  static bool is_list(const SchemaElement& element) {
    return element.converted == 3 || element.logical.kind == LogicalKind::kList;
  }
  static bool is_map(const SchemaElement& element) {
    return element.converted == 1 || element.converted == 2 ||
           element.logical.kind == LogicalKind::kMap;
  }

  void visit(SchemaPlace place, std::size_t depth, Role role, bool in_list) {
    if (depth > kMostSchemaDepth)
      throw DataLoss("a schema nested more than {} deep", kMostSchemaDepth);
    const SchemaElement& element = take();
    if (element.repetition != kRequired) ++place.definition;
    if (element.repetition == kRepeated) place.list_levels.push_back(place.definition);
    const bool is_wrapper = role == Role::kRepeatedGroup && element.repetition == kRepeated;
    if (role != Role::kOnlyElement && !is_wrapper) add_name(place, element);
    if (element.type.has_value()) return add_leaf(place, element);
    Role children = Role::kNamed;
    if (is_list(element) || is_map(element)) children = Role::kRepeatedGroup;
    if (is_wrapper && in_list && element.children == 1) children = Role::kOnlyElement;
    for (std::int32_t i = 0; i < element.children; ++i) {
      visit(place, depth + 1, children, is_list(element));
    }
  }

  static void add_name(SchemaPlace& place, const SchemaElement& element) {
    place.name += place.name.empty() ? element.name : "." + element.name;
  }

  void add_leaf(SchemaPlace& place, const SchemaElement& element) {
    Leaf leaf;
    leaf.field.name = std::move(place.name);
    leaf.field.list_depth = place.list_levels.size();
    leaf.max_definition = place.definition;
    leaf.list_levels = std::move(place.list_levels);
    set_type(leaf, element);
    leaves_.push_back(std::move(leaf));
  }

  const std::vector<SchemaElement>& elements_;
  std::size_t next_ = 0;
  std::vector<Leaf> leaves_{};
};

struct ChunkMetadata {
  ColumnChunk chunk{};
  std::int32_t type = -1;
  std::uint64_t data_page = 0;
  std::optional<std::uint64_t> dictionary_page{};
};

void read_chunk_metadata(ThriftReader& reader, ChunkMetadata& out) {
  reader.read_struct([&](const ThriftField& field) {
    switch (field.id) {
      case 1:
        out.type = reader.read_i32(field);
        return true;
      case 4:
        out.chunk.codec = reader.read_i32(field);
        return true;
      case 5:
        out.chunk.values = read_count(reader, field);
        return true;
      case 9:
        out.data_page = read_count(reader, field);
        return true;
      case 11:
        out.dictionary_page = read_count(reader, field);
        return true;
      default:
        return false;
    }
  });
}

ChunkMetadata read_chunk(ThriftReader& reader) {
  ChunkMetadata read;
  bool found = false;
  reader.read_struct([&](const ThriftField& field) {
    if (field.id == 1) {
      const std::string_view path = reader.read_binary(field);
      if (!path.empty())
        read.chunk.obstacle = fmt::format("its pages are in another file, {}", path);
      return true;
    }
    if (field.id == 8) read.chunk.obstacle = "it is encrypted";
    if (field.id != 3 || field.type != ThriftType::kStruct) return false;
    read_chunk_metadata(reader, read);
    found = true;
    return true;
  });
  if (!found && read.chunk.obstacle.empty()) reader.fail("a column without metadata");
  read.chunk.first_page = read.data_page;
  // Some writers say 0 where there is none.
  if (read.dictionary_page.value_or(0) > 0) {
    read.chunk.first_page = std::min(*read.dictionary_page, read.data_page);
  }
  return read;
}

struct ParsedRowGroup {
  RowGroup group{};
  std::vector<std::int32_t> types{};
};

ParsedRowGroup read_row_group(ThriftReader& reader) {
  ParsedRowGroup read;
  reader.read_struct([&](const ThriftField& field) {
    if (field.id == 1) {
      reader.read_list(field, ThriftType::kStruct, [&] {
        ChunkMetadata chunk = read_chunk(reader);
        read.types.push_back(chunk.type);
        read.group.columns.push_back(std::move(chunk.chunk));
      });
      return true;
    }
    if (field.id == 3) {
      read.group.rows = read_count(reader, field);
      return true;
    }
    return false;
  });
  return read;
}

void check_row_group(const ParsedRowGroup& read, const FileMetadata& metadata, std::size_t number,
                     std::uint64_t end) {
  if (read.group.columns.size() != metadata.leaves.size()) {
    throw DataLoss("row group {} has {} columns, not the {} of the schema", number,
                   read.group.columns.size(), metadata.leaves.size());
  }
  for (std::size_t i = 0; i < metadata.leaves.size(); ++i) {
    const ColumnChunk& chunk = read.group.columns[i];
    const Leaf& leaf = metadata.leaves[i];
    if (!chunk.obstacle.empty()) continue;
    if (read.types[i] != static_cast<std::int32_t>(leaf.physical)) {
      throw DataLoss("row group {}: column {} is of another type than in the schema", number,
                     leaf.field.name);
    }
    if (chunk.first_page >= end && chunk.values > 0) {
      throw DataLoss("row group {}: column {} begins at byte {}, after the {} bytes of pages",
                     number, leaf.field.name, chunk.first_page, end);
    }
    if (leaf.list_levels.empty() && chunk.values != read.group.rows) {
      throw DataLoss("row group {}: column {} has {} values in {} rows", number, leaf.field.name,
                     chunk.values, read.group.rows);
    }
  }
}

}  // namespace

Footer find_footer(std::string_view file) {
  if (file.size() < kParquetMagic.size() + kFooterTailBytes) {
    throw DataLoss("no Parquet file: {} bytes are too few", file.size());
  }
  const std::string_view magic = file.substr(file.size() - kParquetMagic.size());
  if (magic == kEncryptedMagic)
    throw Unimplemented("the footer is encrypted, which muster cannot read");
  if (!file.starts_with(kParquetMagic) || magic != kParquetMagic) {
    throw DataLoss("no whole Parquet file: it does not begin and end with PAR1; was it cut off?");
  }
  const auto size = load_unaligned<std::uint32_t>(file.data() + file.size() - kFooterTailBytes);
  const std::size_t most = file.size() - kParquetMagic.size() - kFooterTailBytes;
  if (size > most) {
    throw DataLoss("damaged at byte {}: {} bytes of metadata do not fit the file",
                   file.size() - kFooterTailBytes, size);
  }
  const std::uint64_t offset = file.size() - kFooterTailBytes - size;
  return {file.substr(offset, size), offset};
}

FileMetadata parse_metadata(const Footer& footer) {
  FileMetadata metadata;
  ThriftReader reader(footer.metadata);
  std::vector<SchemaElement> schema;
  std::vector<ParsedRowGroup> groups;
  reader.read_struct([&](const ThriftField& field) {
    switch (field.id) {
      case 2:
        reader.read_list(field, ThriftType::kStruct,
                         [&] { schema.push_back(read_schema_element(reader)); });
        return true;
      case 3:
        metadata.rows = read_count(reader, field);
        return true;
      case 4:
        reader.read_list(field, ThriftType::kStruct,
                         [&] { groups.push_back(read_row_group(reader)); });
        return true;
      case 6:
        metadata.created_by = reader.read_binary(field);
        return true;
      default:
        return false;
    }
  });
  metadata.leaves = SchemaWalk(schema).leaves();
  std::uint64_t rows = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    check_row_group(groups[i], metadata, i, footer.offset);
    if (groups[i].group.rows > metadata.rows - rows) break;
    rows += groups[i].group.rows;
    metadata.row_groups.push_back(std::move(groups[i].group));
  }
  if (rows != metadata.rows || metadata.row_groups.size() != groups.size()) {
    throw DataLoss("the row groups do not have the {} rows of the file", metadata.rows);
  }
  return metadata;
}

namespace {

void read_data_header(ThriftReader& reader, PageHeader& header) {
  reader.read_struct([&](const ThriftField& field) {
    switch (field.id) {
      case 1:
        header.values = read_small_count(reader, field);
        return true;
      case 2:
        header.encoding = reader.read_i32(field);
        return true;
      case 3:
        header.definition_encoding = reader.read_i32(field);
        return true;
      case 4:
        header.repetition_encoding = reader.read_i32(field);
        return true;
      default:
        return false;
    }
  });
}

void read_dictionary_header(ThriftReader& reader, PageHeader& header) {
  reader.read_struct([&](const ThriftField& field) {
    if (field.id == 1) {
      header.values = read_small_count(reader, field);
      return true;
    }
    if (field.id == 2) {
      header.encoding = reader.read_i32(field);
      return true;
    }
    return false;
  });
}

void read_data_header_v2(ThriftReader& reader, PageHeader& header) {
  reader.read_struct([&](const ThriftField& field) {
    switch (field.id) {
      case 1:
        header.values = read_small_count(reader, field);
        return true;
      case 4:
        header.encoding = reader.read_i32(field);
        return true;
      case 5:
        header.definition_bytes = read_small_count(reader, field);
        return true;
      case 6:
        header.repetition_bytes = read_small_count(reader, field);
        return true;
      case 7:
        header.is_compressed = reader.read_bool(field);
        return true;
      default:
        return false;
    }
  });
}

}  // namespace

PageHeader parse_page_header(std::string_view bytes) {
  PageHeader header;
  ThriftReader reader(bytes);
  std::optional<PageType> described;
  reader.read_struct([&](const ThriftField& field) {
    switch (field.id) {
      case 1: {
        const std::int32_t type = reader.read_i32(field);
        if (type < 0 || type > 3) reader.fail("a page of unknown type");
        header.type = static_cast<PageType>(type);
        return true;
      }
      case 2:
        header.plain_bytes = read_small_count(reader, field);
        return true;
      case 3:
        header.stored_bytes = read_small_count(reader, field);
        return true;
      case 4:
        header.has_crc = true;
        header.crc = static_cast<std::uint32_t>(reader.read_i32(field));
        return true;
      case 5:
        reader.expect(field, ThriftType::kStruct);
        read_data_header(reader, header);
        described = PageType::kData;
        return true;
      case 7:
        reader.expect(field, ThriftType::kStruct);
        read_dictionary_header(reader, header);
        described = PageType::kDictionary;
        return true;
      case 8:
        reader.expect(field, ThriftType::kStruct);
        read_data_header_v2(reader, header);
        described = PageType::kDataV2;
        return true;
      default:
        return false;
    }
  });
  if (header.type != PageType::kIndex && described != header.type) {
    reader.fail("a page without the header of its type");
  }
  header.header_bytes = reader.offset();
  return header;
}

}  // namespace muster::parquet_internal
