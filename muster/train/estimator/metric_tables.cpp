#include "muster/train/estimator/metric_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::size_t kLargestCell = 16;
constexpr std::size_t kPictureSize = 480;

std::string escaped(const std::string& name) {
  std::string text;
  for (const char letter : name) {
    if (letter == '|' || letter == '\\') text += '\\';
    text += letter == '\n' ? ' ' : letter;
  }
  return text;
}

std::uint8_t grey_of(double share) {
  return static_cast<std::uint8_t>(std::lround(255.0 * (1.0 - std::clamp(share, 0.0, 1.0))));
}

}  // namespace

std::string markdown_of(const MetricTable& table) {
  std::string text = fmt::format("| {} |", escaped(table.corner));
  for (const auto& column : table.columns) text += fmt::format(" {} |", escaped(column));
  text += "\n|";
  for (std::size_t i = 0; i <= table.columns.size(); ++i) text += " --- |";
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    text += fmt::format("\n| {} |", escaped(table.rows[row]));
    for (std::size_t column = 0; column < table.columns.size(); ++column) {
      text += fmt::format(" {:g} |", table.at(row, column));
    }
  }
  return text;
}

TablePicture picture_of(const MetricTable& table) {
  const std::size_t rows = table.rows.size();
  const std::size_t columns = table.columns.size();
  if (rows == 0 || columns == 0) throw InvalidArgument("a picture needs a table with cells");
  const std::size_t cell =
      std::clamp<std::size_t>(kPictureSize / std::max(rows, columns), 1, kLargestCell);
  const std::size_t width = columns * cell;
  TablePicture picture{.samples = std::vector<std::uint8_t>(rows * cell * width),
                       .shape = {.height = static_cast<std::int64_t>(rows * cell),
                                 .width = static_cast<std::int64_t>(width)}};
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t column = 0; column < columns; ++column) sum += table.at(row, column);
    for (std::size_t column = 0; column < columns; ++column) {
      const auto grey = grey_of(sum > 0 ? table.at(row, column) / sum : 0.0);
      for (std::size_t line = row * cell; line < (row + 1) * cell; ++line) {
        std::fill_n(
            picture.samples.begin() + static_cast<std::ptrdiff_t>(line * width + column * cell),
            cell, grey);
      }
    }
  }
  return picture;
}

void write_tables(EventWriter& events, const std::map<std::string, MetricTable>& tables,
                  std::int64_t step) {
  for (const auto& [name, table] : tables) {
    if (table.rows.empty()) continue;
    events.add_text(name + "/table", markdown_of(table), step);
    if (!table.is_heat_map) continue;
    const TablePicture picture = picture_of(table);
    events.add_image(name + "/picture", picture.samples, picture.shape, step);
  }
}

}  // namespace muster
