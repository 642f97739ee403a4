#include "muster/data/records/csv.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "muster/base/error.h"
#include "muster/data/records/row_source_internal.h"

namespace muster {
namespace {

constexpr std::size_t kShownBytes = 40;

/// A field's text for an error message, cut where it is long.
std::string shown(std::string_view text) {
  if (text.size() <= kShownBytes) return fmt::format("'{}'", text);
  return fmt::format("'{}...' ({} bytes)", text.substr(0, kShownBytes), text.size());
}

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// from_chars knows no '+'.
std::string_view without_plus(std::string_view text) {
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  return plus ? text.substr(1) : text;
}

enum class Parsed { kGood, kBad, kTooLarge };

template <typename T>
Parsed parse_number(std::string_view text, T& value) {
  text = without_plus(text);
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stopped != end) return Parsed::kBad;
  return error == std::errc() ? Parsed::kGood : Parsed::kTooLarge;
}

/// A number too small for a float is 0, as with strtof; one too large is an error.
Parsed parse_number(std::string_view text, float& value) {
  const Parsed parsed = parse_number<float>(text, value);
  if (parsed != Parsed::kTooLarge) return parsed;
  double wide = 0;
  if (parse_number<double>(text, wide) != Parsed::kGood || std::fabs(wide) > 1) return parsed;
  value = static_cast<float>(wide);
  return Parsed::kGood;
}

/// One field as it stands in a row.
struct RawField {
  std::string_view text{};
  bool quoted = false;
  /// Quotes are written twice in it.
  bool escaped = false;
};

/// Cuts a row into fields.
class FieldCutter {
 public:
  FieldCutter(std::string_view row, const CsvOptions& options) : row_(row), options_(options) {}

  bool done() const { return done_; }
  /// The number of the field that next() gave last, from 1.
  std::size_t number() const { return number_; }

  RawField next() {
    ++number_;
    return options_.use_quotes && row_.substr(at_).starts_with('"') ? quoted() : unquoted();
  }

 private:
  RawField unquoted() {
    const std::size_t end = std::min(row_.find(options_.delimiter, at_), row_.size());
    const std::string_view text = row_.substr(at_, end - at_);
    if (options_.use_quotes && text.find('"') != std::string_view::npos) {
      throw InvalidArgument(
          "a quote inside an unquoted field: {}; quote the whole field and double the quote",
          shown(text));
    }
    finish(end);
    return {.text = text};
  }

  RawField quoted() {
    const std::size_t start = at_ + 1;
    bool escaped = false;
    for (std::size_t quote = row_.find('"', start); quote != std::string_view::npos;
         quote = row_.find('"', quote + 2)) {
      if (row_.substr(quote + 1).starts_with('"')) {
        escaped = true;
        continue;
      }
      if (quote + 1 < row_.size() && row_[quote + 1] != options_.delimiter) {
        throw InvalidArgument("text behind the closing quote: {}", shown(row_.substr(at_)));
      }
      finish(quote + 1);
      return {.text = row_.substr(start, quote - start), .quoted = true, .escaped = escaped};
    }
    throw InvalidArgument("the quote is not closed: {}", shown(row_.substr(at_)));
  }

  void finish(std::size_t end) {
    done_ = end == row_.size();
    at_ = end + 1;
  }

  std::string_view row_;
  const CsvOptions& options_;
  std::size_t at_ = 0;
  std::size_t number_ = 0;
  bool done_ = false;
};

/// Halves doubled quotes, in memory of the arena.
std::string_view unescape(std::string_view text, std::pmr::memory_resource& arena) {
  auto* const out = static_cast<char*>(arena.allocate(text.size(), 1));
  std::size_t size = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out[size++] = text[i];
    if (text[i] == '"') ++i;
  }
  return {out, size};
}

[[noreturn]] void fail_number(const CsvField& field, std::string_view text, Parsed parsed) {
  throw InvalidArgument("{} {}: {}",
                        parsed == Parsed::kTooLarge ? "out of range for" : "not a valid",
                        name_of(field.type), shown(text));
}

/// The default of a field, as the type of its column.
template <typename T>
T default_of(const CsvField& field) {
  if (const auto* value = std::get_if<std::int64_t>(&field.default_value)) {
    return static_cast<T>(*value);
  }
  if (const auto* value = std::get_if<double>(&field.default_value)) return static_cast<T>(*value);
  throw InvalidArgument("required, but blank; give the field a default if it may be");
}

template <>
std::string_view default_of<std::string_view>(const CsvField& field) {
  if (const auto* value = std::get_if<std::string>(&field.default_value)) return *value;
  throw InvalidArgument("required, but blank; give the field a default if it may be");
}

bool is_blank(std::string_view text, const CsvOptions& options) {
  return text.empty() || text == options.na_value;
}

template <typename T>
void append_value(const RawField& raw, const CsvField& field, const CsvOptions& options,
                  std::vector<T>& out, std::pmr::memory_resource& /*arena*/) {
  const std::string_view text = without_blanks(raw.text);
  if (is_blank(text, options)) {
    out.push_back(default_of<T>(field));
    return;
  }
  T value{};
  const Parsed parsed = parse_number(text, value);
  if (parsed != Parsed::kGood) fail_number(field, raw.text, parsed);
  out.push_back(value);
}

void append_value(const RawField& raw, const CsvField& field, const CsvOptions& options,
                  std::vector<std::string_view>& out, std::pmr::memory_resource& arena) {
  const bool strip = options.strip_blanks && !raw.quoted;
  const std::string_view text = strip ? without_blanks(raw.text) : raw.text;
  if (is_blank(text, options)) {
    out.push_back(default_of<std::string_view>(field));
  } else {
    out.push_back(raw.escaped ? unescape(text, arena) : text);
  }
}

void append_value(const RawField&, const CsvField&, const CsvOptions&, std::monostate&,
                  std::pmr::memory_resource&) {}

CsvColumn make_column(CsvType type) {
  switch (type) {
    case CsvType::kInt32:
      return std::vector<std::int32_t>();
    case CsvType::kInt64:
      return std::vector<std::int64_t>();
    case CsvType::kFloat:
      return std::vector<float>();
    case CsvType::kDouble:
      return std::vector<double>();
    case CsvType::kString:
      return std::vector<std::string_view>();
    case CsvType::kIgnored:
      return std::monostate();
  }
  throw Internal("no such CSV type: {}", static_cast<int>(type));
}

void truncate(std::monostate&, std::size_t) {}
template <typename T>
void truncate(std::vector<T>& values, std::size_t rows) {
  values.resize(rows);
}

/// Takes off what a row that failed has left.
void drop_begun_row(CsvColumns& out) {
  for (auto& column : out.columns) {
    std::visit([&out](auto& values) { truncate(values, out.rows); }, column);
  }
}

bool default_fits(const CsvField& field) {
  switch (field.type) {
    case CsvType::kIgnored:
      return std::holds_alternative<std::monostate>(field.default_value);
    case CsvType::kString:
      return !std::holds_alternative<std::int64_t>(field.default_value) &&
             !std::holds_alternative<double>(field.default_value);
    case CsvType::kInt32:
    case CsvType::kInt64: {
      const auto* const value = std::get_if<std::int64_t>(&field.default_value);
      if (!value) return std::holds_alternative<std::monostate>(field.default_value);
      return field.type == CsvType::kInt64 ||
             *value == static_cast<std::int64_t>(static_cast<std::int32_t>(*value));
    }
    case CsvType::kFloat:
    case CsvType::kDouble:
      return !std::holds_alternative<std::string>(field.default_value);
  }
  return false;
}

template <typename T>
std::span<const T> column_of(const CsvColumns& columns, std::string_view name, CsvType type) {
  for (std::size_t i = 0; i < columns.names.size(); ++i) {
    if (columns.names[i] != name) continue;
    if (const auto* values = std::get_if<std::vector<T>>(&columns.columns[i])) return *values;
    throw InvalidArgument("column '{}' does not hold {} values", name, name_of(type));
  }
  throw NotFound("no column '{}'", name);
}

template <typename Value, typename T>
CsvField make_field(std::string name, CsvType type, std::optional<T> default_value) {
  CsvField field{.name = std::move(name), .type = type};
  if (default_value) field.default_value = static_cast<Value>(*std::move(default_value));
  return field;
}

RowSourceOptions row_options(const CsvSourceOptions& options) {
  return {.skip_header_lines = options.skip_header_lines,
          .use_quotes = options.use_quotes,
          .empty_rows = options.skip_empty_lines ? EmptyRows::kSkip : EmptyRows::kError,
          .max_row_bytes = options.max_row_bytes};
}

}  // namespace

std::string_view name_of(CsvType type) {
  switch (type) {
    case CsvType::kInt32:
      return "int32";
    case CsvType::kInt64:
      return "int64";
    case CsvType::kFloat:
      return "float";
    case CsvType::kDouble:
      return "double";
    case CsvType::kString:
      return "string";
    case CsvType::kIgnored:
      return "ignored";
  }
  throw Internal("no such CSV type: {}", static_cast<int>(type));
}

CsvField CsvField::int32(std::string name, std::optional<std::int32_t> default_value) {
  return make_field<std::int64_t>(std::move(name), CsvType::kInt32, default_value);
}
CsvField CsvField::int64(std::string name, std::optional<std::int64_t> default_value) {
  return make_field<std::int64_t>(std::move(name), CsvType::kInt64, default_value);
}
CsvField CsvField::float32(std::string name, std::optional<float> default_value) {
  return make_field<double>(std::move(name), CsvType::kFloat, default_value);
}
CsvField CsvField::float64(std::string name, std::optional<double> default_value) {
  return make_field<double>(std::move(name), CsvType::kDouble, default_value);
}
CsvField CsvField::string(std::string name, std::optional<std::string> default_value) {
  return make_field<std::string>(std::move(name), CsvType::kString, std::move(default_value));
}
CsvField CsvField::ignored(std::string name) {
  return {.name = std::move(name), .type = CsvType::kIgnored};
}

std::span<const std::int32_t> CsvColumns::int32s(std::string_view name) const {
  return column_of<std::int32_t>(*this, name, CsvType::kInt32);
}
std::span<const std::int64_t> CsvColumns::int64s(std::string_view name) const {
  return column_of<std::int64_t>(*this, name, CsvType::kInt64);
}
std::span<const float> CsvColumns::floats(std::string_view name) const {
  return column_of<float>(*this, name, CsvType::kFloat);
}
std::span<const double> CsvColumns::doubles(std::string_view name) const {
  return column_of<double>(*this, name, CsvType::kDouble);
}
std::span<const std::string_view> CsvColumns::strings(std::string_view name) const {
  return column_of<std::string_view>(*this, name, CsvType::kString);
}

std::vector<std::string> split_csv_row(std::string_view row, const CsvOptions& options) {
  std::pmr::monotonic_buffer_resource arena;
  std::vector<std::string> fields;
  FieldCutter cutter(row, options);
  while (!cutter.done()) {
    const RawField raw = cutter.next();
    const bool strip = options.strip_blanks && !raw.quoted;
    const std::string_view text = strip ? without_blanks(raw.text) : raw.text;
    fields.emplace_back(raw.escaped ? unescape(text, arena) : text);
  }
  return fields;
}

CsvDecoder::CsvDecoder(std::vector<CsvField> fields, CsvOptions options)
    : fields_(std::move(fields)), options_(std::move(options)) {
  if (fields_.empty()) throw InvalidArgument("a CSV row needs at least one field");
  if (std::strchr("\"\r\n", options_.delimiter)) {
    throw InvalidArgument("a quote, a line end or NUL cannot delimit CSV fields");
  }
  for (const auto& field : fields_) {
    if (!default_fits(field)) {
      throw InvalidArgument("field '{}': the default does not fit its type, {}", field.name,
                            name_of(field.type));
    }
  }
}

CsvColumns CsvDecoder::empty_columns() const {
  CsvColumns out;
  out.arena = std::make_unique<std::pmr::monotonic_buffer_resource>();
  for (const auto& field : fields_) {
    out.names.push_back(field.name);
    out.columns.push_back(make_column(field.type));
  }
  return out;
}

void CsvDecoder::append(std::string_view row, CsvColumns& out) const {
  FieldCutter cutter(row, options_);
  try {
    while (!cutter.done()) {
      const RawField raw = cutter.next();
      if (cutter.number() > fields_.size()) continue;  // counted to the end, for the error
      const std::size_t i = cutter.number() - 1;
      std::visit([&](auto& values) { append_value(raw, fields_[i], options_, values, *out.arena); },
                 out.columns[i]);
    }
  } catch (Error& error) {
    drop_begun_row(out);
    const std::size_t number = cutter.number();
    const bool known = number <= fields_.size();
    error.add_context(
        fmt::format("field {} ({})", number, known ? fields_[number - 1].name : "extra"));
    throw;
  }
  if (cutter.number() != fields_.size()) {
    drop_begun_row(out);
    throw InvalidArgument("{} fields, expected {}: {}", cutter.number(), fields_.size(),
                          shown(row));
  }
  ++out.rows;
}

CsvColumns CsvDecoder::decode(std::span<const std::string_view> rows,
                              const CsvRowName& name) const {
  CsvColumns out = empty_columns();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    try {
      append(rows[row], out);
    } catch (Error& error) {
      error.add_context(name ? name(row) : fmt::format("row {} of the batch", row));
      throw;
    }
  }
  return out;
}

std::unique_ptr<RecordSource> open_csv(const Path& path, const CsvSourceOptions& options) {
  return open_rows(path, options.compression, row_options(options));
}

std::unique_ptr<RecordSource> open_csv(std::string_view text, const std::string& name,
                                       const CsvSourceOptions& options) {
  return std::make_unique<RowSource>(
      name, [text, name, options] { return open_input(text, name, options.compression); },
      row_options(options));
}

}  // namespace muster
