#include "muster/data/tables/json_lines.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json_depth.h"
#include "muster/data/records/csv.h"
#include "muster/data/tables/row_table_reader_internal.h"

namespace muster {
namespace {

using nlohmann::json;

json parse_json_row(std::string_view row) {
  if (is_json_deeper_than(kMostJsonFileDepth, row)) {
    throw InvalidArgument("lists and objects are nested more than {} deep", kMostJsonFileDepth);
  }
  json parsed;
  try {
    parsed = json::parse(row);
  } catch (const json::exception& error) {
    throw InvalidArgument("no JSON: {}", error.what());
  }
  if (!parsed.is_object())
    throw InvalidArgument("a line is one object, not {}", parsed.type_name());
  return parsed;
}

/// Calls `visit` with the name and the value of each member, those of inner objects as
/// "outer.inner".
template <typename Visit>
void each_member(const json& object, const std::string& prefix, const Visit& visit) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (value.is_object()) {
      each_member(value, name, visit);
    } else {
      visit(name, value);
    }
  }
}

void guess_value(const std::string& name, const json& value, bool is_list, TypeGuess& guess) {
  using Kind = TypeGuess::Kind;
  switch (value.type()) {
    case json::value_t::boolean:
      return guess.see(name, Kind::kBool, is_list);
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return guess.see(name, Kind::kInt, is_list);
    case json::value_t::number_float:
      return guess.see(name, Kind::kDouble, is_list);
    case json::value_t::string:
      return guess.see(name, Kind::kString, is_list);
    case json::value_t::null:
      return is_list ? guess.see_list(name) : guess.see_missing(name);
    default:
      throw InvalidArgument("`{}` has a list of {}s, which is no column", name, value.type_name());
  }
}

void add_json_value(TableBuilder& builder, std::size_t column, const json& value) {
  switch (value.type()) {
    case json::value_t::boolean:
      return builder.add_bool(column, value.get<bool>());
    case json::value_t::number_unsigned:
      if (!std::in_range<std::int64_t>(value.get<std::uint64_t>())) {
        return builder.add_double(column, value.get<double>());
      }
      return builder.add_int(column, value.get<std::int64_t>());
    case json::value_t::number_integer:
      return builder.add_int(column, value.get<std::int64_t>());
    case json::value_t::number_float:
      return builder.add_double(column, value.get<double>());
    case json::value_t::string:
      return builder.add_string(column, value.get<std::string>());
    case json::value_t::null:
      return builder.add_missing(column);
    default:
      throw InvalidArgument("`{}` has a list of {}s, which is no column",
                            (*builder.fields())[column].name, value.type_name());
  }
}

class JsonRowFormat final : public RowFormat {
 public:
  void guess(std::string_view row, TypeGuess& guess) override {
    each_member(parse_json_row(row), "", [&](const std::string& name, const json& value) {
      if (!value.is_array()) return guess_value(name, value, false, guess);
      guess.see_list(name);
      for (const json& element : value) guess_value(name, element, true, guess);
    });
  }

  void parse(std::string_view row, bool all_columns, TableBuilder& builder) override {
    each_member(parse_json_row(row), "", [&](const std::string& name, const json& value) {
      const auto column = builder.find(name);
      if (column) return add(builder, *column, value);
      if (all_columns && !value.is_null()) {
        throw InvalidArgument(
            "`{}` is a member that the first rows do not have; name the columns to read", name);
      }
    });
  }

 private:
  static void add(TableBuilder& builder, std::size_t column, const json& value) {
    const TableField& field = (*builder.fields())[column];
    if (field.list_depth == 0) {
      if (value.is_array())
        throw InvalidArgument("`{}` is a list, not one {}", field.name, name_of(field.type));
      return add_json_value(builder, column, value);
    }
    if (value.is_null()) return;
    if (!value.is_array())
      throw InvalidArgument("`{}` is {}, not a list", field.name, value.type_name());
    for (const json& element : value) add_json_value(builder, column, element);
  }
};

std::unique_ptr<TableReader> make_json_reader(const std::string& name,
                                              std::function<std::unique_ptr<RecordSource>()> open,
                                              JsonLinesOptions options) {
  return make_row_table_reader(name, std::move(open), std::make_unique<JsonRowFormat>(),
                               {.fields = std::move(options.fields),
                                .columns = std::move(options.columns),
                                .guess_rows = options.guess_rows,
                                .block_rows = options.block_rows});
}

CsvSourceOptions line_options(const JsonLinesOptions& options) {
  return {.use_quotes = false,
          .skip_empty_lines = true,
          .max_row_bytes = options.max_line_bytes,
          .compression = options.compression};
}

}  // namespace

std::unique_ptr<TableReader> open_json_lines(const Path& path, JsonLinesOptions options) {
  const CsvSourceOptions lines = line_options(options);
  return make_json_reader(
      path.string(), [path, lines] { return open_csv(path, lines); }, std::move(options));
}

std::unique_ptr<TableReader> open_json_lines(std::string_view text, const std::string& name,
                                             JsonLinesOptions options) {
  const CsvSourceOptions lines = line_options(options);
  return make_json_reader(
      name, [text, name, lines] { return open_csv(text, name, lines); }, std::move(options));
}

}  // namespace muster
