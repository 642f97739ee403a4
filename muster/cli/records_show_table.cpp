#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "muster/base/printable.h"
#include "muster/cli/records_show.h"
#include "muster/data/tables/open_table.h"

namespace muster::cli {
namespace {

using nlohmann::json;

/// Text of UTF-8 is shown as it is.
bool is_text(std::string_view bytes) {
  return std::ranges::none_of(bytes, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string quoted(std::string_view bytes) {
  constexpr std::size_t kMost = 48;
  if (!is_text(bytes) || bytes.size() > kMost) return preview_of(bytes);
  return fmt::format("\"{}\"", printable_line(bytes));
}

std::string table_value_text(const TableField& field, const TableColumn& column,
                             std::size_t value) {
  if (!column.is_valid(value)) return "missing";
  return std::visit(
      [&](const auto& values) -> std::string {
        using Value = std::decay_t<decltype(values[value])>;
        if constexpr (std::is_same_v<Value, std::string_view>) {
          return quoted(values[value]);
        } else {
          if (field.type == TableType::kBool) return values[value] != 0 ? "true" : "false";
          return fmt::format("{}", values[value]);
        }
      },
      column.values);
}

/// Element `index` of the lists at `level`; below the last of them are the values.
std::string table_text(const TableField& field, const TableColumn& column, std::size_t level,
                       std::size_t index, std::uint64_t most) {
  if (level == column.splits.size()) return table_value_text(field, column, index);
  const auto begin = static_cast<std::size_t>(column.splits[level][index]);
  const auto end = static_cast<std::size_t>(column.splits[level][index + 1]);
  std::string text = "[";
  for (std::size_t i = begin; i < std::min<std::size_t>(end, begin + most); ++i) {
    text += (i == begin ? "" : ", ") + table_text(field, column, level + 1, i, most);
  }
  if (end - begin > most) text += fmt::format(", ... ({} values)", end - begin);
  return text + "]";
}

json table_json(const TableField& field, const TableColumn& column, std::size_t level,
                std::size_t index) {
  if (level < column.splits.size()) {
    json list = json::array();
    const auto end = static_cast<std::size_t>(column.splits[level][index + 1]);
    for (auto i = static_cast<std::size_t>(column.splits[level][index]); i < end; ++i) {
      list.push_back(table_json(field, column, level + 1, i));
    }
    return list;
  }
  if (!column.is_valid(index)) return nullptr;
  return std::visit(
      [&](const auto& values) -> json {
        using Value = std::decay_t<decltype(values[index])>;
        if constexpr (std::is_same_v<Value, std::string_view>) {
          return is_text(values[index]) ? json(values[index]) : bytes_to_json(values[index]);
        } else {
          if (field.type == TableType::kBool) return values[index] != 0;
          return values[index];
        }
      },
      column.values);
}

std::string type_text(const TableField& field) {
  std::string text(name_of(field.type));
  for (std::size_t i = 0; i < field.list_depth; ++i) text = "list of " + text;
  return field.meaning.empty() ? text : text + ", " + field.meaning;
}

void print_table_row(const TableBlock& block, std::size_t row, const RecordsShowOptions& options) {
  const std::uint64_t number = block.first_row + row;
  if (options.as_json) {
    json columns = json::object();
    for (std::size_t i = 0; i < block.columns.size(); ++i) {
      columns[(*block.fields)[i].name] = table_json((*block.fields)[i], block.columns[i], 0, row);
    }
    const json line{{"row", number}, {"columns", std::move(columns)}};
    fmt::print("{}\n", line.dump(-1, ' ', false, json::error_handler_t::replace));
    return;
  }
  fmt::print("row {}\n", number);
  for (std::size_t i = 0; i < block.columns.size(); ++i) {
    const TableField& field = (*block.fields)[i];
    fmt::print("  {} ({}): {}\n", printable_line(field.name), type_text(field),
               table_text(field, block.columns[i], 0, row, options.values));
  }
}

}  // namespace

void show_table(const RecordsShowOptions& options) {
  const auto reader = open_table(options.file, {.block_rows = 256, .query = options.query});
  reader->seek(options.skip);
  std::uint64_t left = options.limit;
  while (left > 0) {
    const auto block = reader->next();
    if (!block) break;
    for (std::size_t row = 0; row < block->rows && left > 0; ++row, --left) {
      print_table_row(*block, row, options);
    }
  }
}

}  // namespace muster::cli
