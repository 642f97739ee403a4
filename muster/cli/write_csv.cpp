#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/records_write.h"
#include "muster/cli/split_writer.h"
#include "muster/data/records/csv.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/sharded_files.h"

namespace muster::cli {
namespace {

struct WriteCsvOptions {
  std::vector<std::string> inputs;
  bool header = false;
  std::vector<std::string> names;
  std::vector<std::string> ignored;
  std::vector<std::string> packs;
  double scale = 1.0;
  std::uint64_t memory_mib = 4096;
  char delimiter = ',';
  OutputOptions output;
  SplitOptions split;
};

/// A row and where it was read, for messages.
struct CsvRow {
  Record record;
  std::size_t file = 0;
  std::uint64_t number = 0;
};

/// Columns that make one feature of floats together, such as the pixels of an image.
struct Pack {
  std::string name;
  std::size_t first = 0;
  std::size_t last = 0;
};

enum class Kind { kInt64, kFloat, kBytes };

template <typename T>
bool parses_as(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// The narrowest kind that holds everything seen so far.
Kind widened(Kind kind, std::string_view text) {
  std::int64_t integer = 0;
  double real = 0;
  if (text.empty() || kind == Kind::kBytes) return kind;
  if (kind == Kind::kInt64 && parses_as(text, integer)) return kind;
  return parses_as(text, real) ? Kind::kFloat : Kind::kBytes;
}

/// The whole input as a table: rows stay views of their files, and are cut into fields when needed.
class Table {
 public:
  explicit Table(const WriteCsvOptions& options)
      : csv_{.delimiter = options.delimiter, .strip_blanks = true},
        bytes_left_(options.memory_mib << 20) {
    files_ = expand_files(options.inputs);
    names_ = options.names;
    for (std::size_t file = 0; file < files_.size(); ++file) read(file, options.header);
    if (rows_.empty()) throw InvalidArgument("{} has no rows", files_.front().string());
    std::set<std::string> unique(names_.begin(), names_.end());
    if (unique.size() != names_.size()) throw InvalidArgument("a column name occurs twice");
  }

  const std::vector<std::string>& names() const { return names_; }
  std::uint64_t size() const { return rows_.size(); }

  std::vector<std::string> fields(std::uint64_t i) const {
    const CsvRow& row = rows_[i];
    try {
      auto fields = split_csv_row(row.record.bytes, csv_);
      if (fields.size() != names_.size()) {
        throw InvalidArgument("{} fields, but there are {} columns", fields.size(), names_.size());
      }
      return fields;
    } catch (Error& error) {
      error.add_context(where(i));
      throw;
    }
  }

  bool is_first_of_file(std::uint64_t i) const {
    return i == 0 || rows_[i].file != rows_[i - 1].file;
  }

  std::string where(std::uint64_t i) const {
    return open_csv(files_[rows_[i].file])->where(rows_[i].number);
  }

 private:
  void read(std::size_t file, bool header) {
    const auto source = open_csv(files_[file], {.skip_empty_lines = true});
    Record record;
    if (header && source->next(record)) check_header(file, split_csv_row(record.bytes, csv_));
    for (std::uint64_t number = source->position(); source->next(record);
         number = source->position()) {
      if (names_.empty()) name_columns(split_csv_row(record.bytes, csv_).size());
      take_memory(record.bytes.size() + sizeof(CsvRow));
      rows_.push_back({record, file, number});
    }
  }

  // A small compressed file can hold very many rows.
  void take_memory(std::uint64_t bytes) {
    if (bytes > bytes_left_) {
      throw ResourceExhausted("{} rows fill the memory that they may take; raise --memory-mib",
                              rows_.size());
    }
    bytes_left_ -= bytes;
  }

  // Every file's own header must name the same columns.
  void check_header(std::size_t file, std::vector<std::string> header) {
    if (names_.empty()) names_ = header;
    if (header != names_) {
      throw InvalidArgument("the header of {} names other columns than --names or the first file",
                            files_[file].string());
    }
  }

  void name_columns(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) names_.push_back(fmt::format("column_{}", i));
  }

  CsvOptions csv_;
  std::vector<Path> files_;
  std::vector<std::string> names_;
  std::vector<CsvRow> rows_;
  std::uint64_t bytes_left_;
};

std::size_t column_index(const Table& table, const std::string& name, std::string_view flag) {
  const auto& names = table.names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw UsageError("{}: there is no column '{}'; the columns are {} to {}", flag, name,
                     names.front(), names.back());
  }
  return static_cast<std::size_t>(found - names.begin());
}

Pack parse_pack(const Table& table, const std::string& text) {
  const auto equals = text.find('=');
  const auto dots = text.find("..", equals == std::string::npos ? 0 : equals);
  if (equals == std::string::npos || equals == 0 || dots == std::string::npos) {
    throw UsageError("--pack takes NAME=FIRST..LAST, not '{}'", text);
  }
  const Pack pack{text.substr(0, equals),
                  column_index(table, text.substr(equals + 1, dots - equals - 1), "--pack"),
                  column_index(table, text.substr(dots + 2), "--pack")};
  if (pack.first > pack.last)
    throw UsageError("--pack {}: the last column stands before the first", text);
  return pack;
}

/// Turns rows into Examples: the plan is made once, from the flags and a look at all values.
class CsvRecordWriter {
 public:
  CsvRecordWriter(const Table& table, const WriteCsvOptions& options)
      : table_(table), scale_(options.scale) {
    kinds_.assign(table.names().size(), Kind::kInt64);
    single_.assign(table.names().size(), true);
    for (const auto& name : options.ignored) single_[column_index(table, name, "--ignore")] = false;
    for (const auto& text : options.packs) {
      packs_.push_back(parse_pack(table, text));
      for (std::size_t c = packs_.back().first; c <= packs_.back().last; ++c) single_[c] = false;
    }
    look_at_columns(options.header);
  }

  void describe() const {
    for (std::size_t c = 0; c < kinds_.size(); ++c) {
      constexpr const char* kNames[] = {"int64", "float", "bytes"};
      if (single_[c])
        fmt::print("  {}: {}\n", table_.names()[c], kNames[static_cast<int>(kinds_[c])]);
    }
    for (const auto& pack : packs_)
      fmt::print("  {}: {} floats\n", pack.name, pack.last - pack.first + 1);
  }

  void operator()(std::uint64_t i, std::string& out) const {
    const auto fields = table_.fields(i);
    ExampleBuilder builder;
    for (std::size_t c = 0; c < fields.size(); ++c) {
      if (single_[c]) add(builder, c, fields[c]);
    }
    for (const auto& pack : packs_) add(builder, pack, fields, i);
    builder.serialize_to(out);
  }

 private:
  void look_at_columns(bool header) {
    // Kinds of the columns without the first row of each file.
    std::vector<Kind> below(kinds_);
    std::vector<bool> has_values(kinds_.size(), false);
    {
      Progress progress("looking at the columns", table_.size(), "rows");
      for (std::uint64_t i = 0; i < table_.size(); ++i) {
        const auto fields = table_.fields(i);
        for (std::size_t c = 0; c < fields.size(); ++c) {
          kinds_[c] = widened(kinds_[c], fields[c]);
          if (table_.is_first_of_file(i) || fields[c].empty()) continue;
          below[c] = widened(below[c], fields[c]);
          has_values[c] = true;
        }
        progress.update(i);
      }
    }
    for (std::size_t c = 0; c < below.size(); ++c) {
      if (!has_values[c]) below[c] = Kind::kBytes;
    }
    if (!header) warn_of_header(below);
  }

  // Words over numbers alone are most likely names: with them every such column becomes bytes.
  void warn_of_header(const std::vector<Kind>& below) const {
    const auto first = table_.fields(0);
    for (std::size_t c = 0; c < kinds_.size(); ++c) {
      const bool is_name = kinds_[c] == Kind::kBytes && below[c] != Kind::kBytes;
      if (!is_name || widened(Kind::kInt64, first[c]) != Kind::kBytes) continue;
      log::warning(
          "{} looks like a header: '{}' stands over numbers, so {} is written as bytes, and the "
          "line as a row; give --header if it names the columns",
          table_.where(0), first[c], table_.names()[c]);
      return;
    }
  }

  // A blank number is a missing feature, which a parse spec gives its default.
  void add(ExampleBuilder& builder, std::size_t column, const std::string& text) const {
    const std::string& name = table_.names()[column];
    if (kinds_[column] == Kind::kBytes) {
      builder.add_bytes(name, text);
      return;
    }
    if (text.empty()) return;
    std::int64_t integer = 0;
    double real = 0;
    if (kinds_[column] == Kind::kInt64 && parses_as(text, integer)) {
      builder.add_int(name, integer);
    } else if (parses_as(text, real)) {
      builder.add_float(name, static_cast<float>(real));
    }
  }

  void add(ExampleBuilder& builder, const Pack& pack, const std::vector<std::string>& fields,
           std::uint64_t i) const {
    std::vector<float> values;
    for (std::size_t c = pack.first; c <= pack.last; ++c) {
      double real = 0;
      if (!parses_as(fields[c], real)) {
        throw InvalidArgument("{}: column {} of --pack {} is no number: '{}'", table_.where(i),
                              table_.names()[c], pack.name, fields[c]);
      }
      values.push_back(static_cast<float>(real / scale_));
    }
    builder.add_floats(pack.name, values);
  }

  const Table& table_;
  double scale_;
  std::vector<Kind> kinds_;
  std::vector<bool> single_;
  std::vector<Pack> packs_;
};

void run(const WriteCsvOptions& options) {
  const Table table(options);
  const CsvRecordWriter writer(table, options);
  fmt::print("{} rows with the features\n", table.size());
  writer.describe();
  write_split(options.output, options.split, table.size(),
              [&](std::uint64_t i, std::string& out) { writer(i, out); });
  fmt::print("Done!\n");
}

}  // namespace

void add_write_csv(CLI::App& command) {
  const auto options = std::make_shared<WriteCsvOptions>();
  command.add_option("--input", options->inputs, "CSV files or globs, also compressed")->required();
  command.add_flag("--header", options->header, "The first line of each file names the columns");
  command.add_option("--names", options->names, "Names of the columns: a,b,c")->delimiter(',');
  command.add_option("--ignore", options->ignored, "Columns to leave out: a,b")->delimiter(',');
  command.add_option(
      "--pack", options->packs,
      "NAME=FIRST..LAST: these columns make one feature of floats, as pixels do an image");
  command.add_option("--scale", options->scale, "Divide packed values by this, such as 255")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--memory-mib", options->memory_mib,
                  "All rows are held in memory; at most this many MiB of them")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--delimiter", options->delimiter, "Between fields")->capture_default_str();
  add_output_flags(command, options->output);
  add_split_flags(command, options->split);
  command.callback([options] { run(*options); });
}

}  // namespace muster::cli
