#include "muster/data/tables/text_tables.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/csv.h"
#include "muster/data/records/example_parser.h"
#include "muster/data/records/tfrecord_source.h"
#include "muster/data/tables/row_table_reader_internal.h"

namespace muster {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

template <typename T>
std::optional<T> number_in(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class CsvRowFormat final : public RowFormat {
 public:
  CsvRowFormat(std::vector<std::string> names, const TextTableOptions& options)
      : names_(std::move(names)),
        csv_{.delimiter = options.delimiter},
        na_value_(options.na_value) {}

  GuessRules rules() const override { return {.is_string_if_mixed = true}; }

  void guess(std::string_view row, TypeGuess& guess) override {
    each_field(row, [&](std::size_t i, const std::string& text) {
      const std::string_view value = trimmed(text);
      if (is_missing(value)) return guess.see_missing(names_[i]);
      guess.see(names_[i], kind_of(value), false);
    });
  }
  void parse(std::string_view row, bool, TableBuilder& builder) override {
    each_field(row, [&](std::size_t i, std::string& text) {
      const auto column = builder.find(names_[i]);
      if (!column) return;
      const std::string_view value = trimmed(text);
      if (is_missing(value)) return builder.add_missing(*column);
      add(builder, *column, value, text);
    });
  }

 private:
  static TypeGuess::Kind kind_of(std::string_view value) {
    if (number_in<std::int64_t>(value)) return TypeGuess::Kind::kInt;
    return number_in<double>(value) ? TypeGuess::Kind::kDouble : TypeGuess::Kind::kString;
  }
  bool is_missing(std::string_view value) const { return value.empty() || value == na_value_; }

  template <typename Visit>
  void each_field(std::string_view row, const Visit& visit) const {
    std::vector<std::string> texts = split_csv_row(row, csv_);
    if (texts.size() != names_.size()) {
      throw InvalidArgument("{} fields, but the first row names {}", texts.size(), names_.size());
    }
    for (std::size_t i = 0; i < texts.size(); ++i) visit(i, texts[i]);
  }

  static void add(TableBuilder& builder, std::size_t column, std::string_view value,
                  std::string& text) {
    switch ((*builder.fields())[column].type) {
      case TableType::kInt64:
        if (const auto whole = number_in<std::int64_t>(value))
          return builder.add_int(column, *whole);
        break;
      case TableType::kDouble:
        if (const auto number = number_in<double>(value))
          return builder.add_double(column, *number);
        break;
      default:
        break;
    }
    builder.add_string(column, std::move(text));
  }

  std::vector<std::string> names_;
  CsvOptions csv_;
  std::string na_value_;
};

class ExampleRowFormat final : public RowFormat {
 public:
  GuessRules rules() const override { return {.is_list_if_any = true}; }

  void guess(std::string_view row, TypeGuess& guess) override {
    std::vector<std::string> keys = example_keys(row);
    const ExampleView features = ExampleParser(keys).parse(row);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::size_t count = features[i].count();
      if (count > 1) guess.see_list(keys[i]);
      if (count == 0) guess.see_missing(keys[i]);
      if (count > 0) guess.see(keys[i], kind_of(features[i].kind()), false);
    }
  }
  void parse(std::string_view row, bool, TableBuilder& builder) override {
    if (!parser_) {
      std::vector<std::string> keys;
      for (const TableField& field : *builder.fields()) keys.push_back(field.name);
      parser_.emplace(std::move(keys));
    }
    parser_->parse(row, features_);
    for (std::size_t i = 0; i < features_.size(); ++i) add(builder, i, features_[i]);
  }

 private:
  static TypeGuess::Kind kind_of(FeatureKind kind) {
    if (kind == FeatureKind::kInt64) return TypeGuess::Kind::kInt;
    return kind == FeatureKind::kFloat ? TypeGuess::Kind::kDouble : TypeGuess::Kind::kString;
  }

  void add(TableBuilder& builder, std::size_t column, const FeatureView& feature) {
    switch (feature.kind()) {
      case FeatureKind::kInt64:
        ints_.clear();
        feature.append_to(ints_);
        for (const std::int64_t value : ints_) builder.add_int(column, value);
        return;
      case FeatureKind::kFloat:
        floats_.clear();
        feature.append_to(floats_);
        for (const float value : floats_) builder.add_double(column, value);
        return;
      case FeatureKind::kBytes:
        strings_.clear();
        feature.append_to(strings_);
        for (const std::string_view value : strings_)
          builder.add_string(column, std::string(value));
        return;
      case FeatureKind::kNone:
        break;
    }
  }

  std::optional<ExampleParser> parser_{};
  ExampleView features_{};
  std::vector<std::int64_t> ints_{};
  std::vector<float> floats_{};
  std::vector<std::string_view> strings_{};
};

std::vector<std::string> header_of(const Path& path, const TextTableOptions& options) {
  const auto source = open_csv(path);
  Record row;
  if (!source->next(row))
    throw InvalidArgument("{}: there is no first row with names", path.string());
  auto names = split_csv_row(row.bytes, {.delimiter = options.delimiter});
  for (std::string& name : names) name = std::string(trimmed(name));
  return names;
}

RowTableOptions row_options(TextTableOptions options) {
  return {.columns = std::move(options.columns),
          .guess_rows = options.guess_rows,
          .block_rows = options.block_rows};
}

}  // namespace

std::unique_ptr<TableReader> open_csv_table(const Path& path, TextTableOptions options) {
  auto format = std::make_unique<CsvRowFormat>(header_of(path, options), options);
  const CsvSourceOptions rows{.skip_header_lines = 1, .skip_empty_lines = true};
  return make_row_table_reader(
      path.string(), [path, rows] { return open_csv(path, rows); }, std::move(format),
      row_options(std::move(options)));
}

std::unique_ptr<TableReader> open_example_table(const Path& path, TextTableOptions options) {
  options.guess_rows = std::min<std::uint64_t>(options.guess_rows, 1000);
  return make_row_table_reader(
      path.string(), [path] { return std::make_unique<TFRecordSource>(path); },
      std::make_unique<ExampleRowFormat>(), row_options(std::move(options)));
}

}  // namespace muster
