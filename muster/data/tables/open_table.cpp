#include "muster/data/tables/open_table.h"

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/tables/json_lines.h"
#include "muster/data/tables/parquet.h"
#include "muster/data/tables/sqlite_table.h"
#include "muster/data/tables/text_tables.h"

namespace muster {
namespace {

enum class TableFormat : std::uint8_t { kParquet, kJsonLines, kCsv, kTabs, kExamples, kSqlite };

constexpr std::string_view kSqliteMagic = "SQLite format 3";

/// Endings that only say that a file is compressed.
constexpr std::string_view kCompressedEndings[] = {".gz", ".xz", ".zst"};

std::string ending_of(const Path& path) {
  Path name = path.filename();
  for (const std::string_view ending : kCompressedEndings) {
    if (name.extension() == ending) name = name.stem();
  }
  return name.extension().string();
}

/// Format of a file that is no table by itself.
TableFormat other_format(const Path& path) {
  const std::string ending = ending_of(path);
  if (ending == ".csv") return TableFormat::kCsv;
  return ending == ".tsv" ? TableFormat::kTabs : TableFormat::kExamples;
}

/// Whether first bytes may be looked at: those of a pipe would be gone.
bool can_be_read_twice(const Path& path) {
  const bool is_remote = path.native().find("://") != std::string::npos;
  return is_remote || !std::filesystem::exists(path) || std::filesystem::is_regular_file(path);
}

std::optional<TableFormat> format_of(const Path& path) {
  if (can_be_read_twice(path)) {
    std::array<char, kSqliteMagic.size()> first{};
    const std::size_t count = file_system_for(path).open(path)->read(first);
    const std::string_view begin(first.data(), count);
    if (begin.starts_with("PAR1")) return TableFormat::kParquet;
    if (begin == kSqliteMagic) return TableFormat::kSqlite;
  }
  const std::string ending = ending_of(path);
  if (ending == ".parquet") return TableFormat::kParquet;
  if (ending == ".jsonl" || ending == ".ndjson") return TableFormat::kJsonLines;
  return std::nullopt;
}

}  // namespace

bool is_table(const Path& path) { return format_of(path).has_value(); }

std::unique_ptr<TableReader> open_table(const Path& path, OpenTableOptions options) {
  auto format = format_of(path);
  if (!format && options.any_file) format = other_format(path);
  if (!format) {
    throw InvalidArgument(
        "{}: no table by its first bytes or its name; there are Parquet (.parquet), JSON lines "
        "(.jsonl, .ndjson) and SQLite databases",
        path.string());
  }
  if (*format == TableFormat::kSqlite && options.query.empty()) {
    throw InvalidArgument("{}: an SQLite database is read by a query; give one (--query)",
                          path.string());
  }
  if (*format != TableFormat::kSqlite && !options.query.empty()) {
    throw InvalidArgument("{}: is no SQLite database, and takes no query (--query)", path.string());
  }
  if (*format == TableFormat::kSqlite && !options.columns.empty()) {
    throw InvalidArgument("{}: the query names the columns, not --columns", path.string());
  }
  TextTableOptions text{.columns = options.columns};
  switch (*format) {
    case TableFormat::kParquet:
      return open_parquet(
          path, {.columns = std::move(options.columns), .block_rows = options.block_rows});
    case TableFormat::kJsonLines:
      return open_json_lines(
          path, {.columns = std::move(options.columns), .block_rows = options.block_rows});
    case TableFormat::kSqlite:
      return open_sqlite(path, {.query = std::move(options.query)});
    case TableFormat::kTabs:
      text.delimiter = '\t';
      return open_csv_table(path, std::move(text));
    case TableFormat::kCsv:
      return open_csv_table(path, std::move(text));
    case TableFormat::kExamples:
      break;
  }
  return open_example_table(path, std::move(text));
}

}  // namespace muster
