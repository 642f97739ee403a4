#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/records/compression.h"
#include "muster/data/records/record.h"
#include "muster/data/records/record_source.h"

namespace muster {

/// kIgnored fields must be there, and are not kept.
enum class CsvType : std::uint8_t { kInt32, kInt64, kFloat, kDouble, kString, kIgnored };

/// "int32", "int64", "float", "double", "string", "ignored".
std::string_view name_of(CsvType type);

/// One field of a row: what it is called in errors, its type, and the value of a blank.
/// Without a default the field is required.
struct CsvField {
  std::string name{};
  CsvType type = CsvType::kString;
  std::variant<std::monostate, std::int64_t, double, std::string> default_value{};

  static CsvField int32(std::string name, std::optional<std::int32_t> default_value = {});
  static CsvField int64(std::string name, std::optional<std::int64_t> default_value = {});
  static CsvField float32(std::string name, std::optional<float> default_value = {});
  static CsvField float64(std::string name, std::optional<double> default_value = {});
  static CsvField string(std::string name, std::optional<std::string> default_value = {});
  static CsvField ignored(std::string name);
};

struct CsvOptions {
  char delimiter = ',';
  /// A field may be in double quotes, inside which a quote is doubled. Without this,
  /// quotes are letters like others.
  bool use_quotes = true;
  /// Takes blanks (space, tab) off both ends of unquoted strings. Numbers may always have them.
  bool strip_blanks = false;
  /// A field with this text counts as blank, such as "?" or "NA".
  std::string na_value{};
};

/// The values of one field, one a row.
using CsvColumn =
    std::variant<std::vector<std::int32_t>, std::vector<std::int64_t>, std::vector<float>,
                 std::vector<double>, std::vector<std::string_view>, std::monostate>;

/// A batch of rows as columns, one a field. Strings are views into the rows' text, which must
/// outlive this, except those that had to be unescaped, which are in `arena`.
struct CsvColumns {
  std::size_t rows = 0;
  std::vector<std::string> names{};
  std::vector<CsvColumn> columns{};
  std::unique_ptr<std::pmr::monotonic_buffer_resource> arena{};

  /// The column of this field and type; throws NotFound, or InvalidArgument for another type.
  std::span<const std::int32_t> int32s(std::string_view name) const;
  std::span<const std::int64_t> int64s(std::string_view name) const;
  std::span<const float> floats(std::string_view name) const;
  std::span<const double> doubles(std::string_view name) const;
  std::span<const std::string_view> strings(std::string_view name) const;
};

/// Says in an error where a row of a batch is: "train.csv line 17".
using CsvRowName = std::function<std::string(std::size_t row)>;

/// Turns the text of rows into typed columns, as strictly as TensorFlow's decode_csv: another
/// number of fields, a bad or too large number, a blank in a required field, a quote in the middle
/// of an unquoted field throw InvalidArgument that names the row, the field and its text. Numbers
/// do not depend on the locale. Safe to use from several threads.
class CsvDecoder {
 public:
  /// Throws InvalidArgument for no fields, a delimiter that is a quote or a line end, or a default
  /// that does not fit its type.
  explicit CsvDecoder(std::vector<CsvField> fields, CsvOptions options = {});

  std::span<const CsvField> fields() const { return fields_; }

  /// A row has no line end. Views in the result point into `rows` or the decoder (defaults).
  CsvColumns decode(std::span<const std::string_view> rows, const CsvRowName& name = {}) const;
  /// Appends one row; on an error `out` stays as it was.
  void append(std::string_view row, CsvColumns& out) const;
  /// Columns that append() starts from: every column, without rows.
  CsvColumns empty_columns() const;

 private:
  std::vector<CsvField> fields_;
  CsvOptions options_;
};

/// The fields of one row as text, unquoted, for a header or a row whose columns are not known yet.
/// Throws InvalidArgument for quotes that do not close.
std::vector<std::string> split_csv_row(std::string_view row, const CsvOptions& options = {});

/// Options that decide where a row of a file ends.
struct CsvSourceOptions {
  /// Lines passed over at the start of every file.
  std::uint64_t skip_header_lines = 0;
  /// A line feed inside double quotes belongs to the field.
  bool use_quotes = true;
  /// Without this a line with nothing in it is an error.
  bool skip_empty_lines = false;
  std::size_t max_row_bytes = std::size_t{16} << 20;
  Compression compression = Compression::kAuto;
};

/// Opens a CSV file: one record is the text of one row, without its line end (LF or CRLF).
/// where() gives the line the row starts at. Throws NotFound.
std::unique_ptr<RecordSource> open_csv(const Path& path, const CsvSourceOptions& options = {});

/// The same over text in memory, which must outlive the source; `name` stands for the file in
/// messages.
std::unique_ptr<RecordSource> open_csv(std::string_view text, const std::string& name,
                                       const CsvSourceOptions& options = {});

}  // namespace muster
