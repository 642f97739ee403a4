#include "muster/data/tables/table.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster {
namespace {

std::string names_of(std::span<const TableField> fields) {
  std::vector<std::string_view> names;
  names.reserve(fields.size());
  for (const TableField& field : fields) names.push_back(field.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string_view name_of(TableType type) {
  constexpr std::string_view kNames[] = {"bool", "int32", "int64", "float", "double", "string"};
  return kNames[static_cast<std::size_t>(type)];
}

TableValues no_values(TableType type) {
  switch (type) {
    case TableType::kBool:
      return TableNumbers<std::uint8_t>();
    case TableType::kInt32:
      return TableNumbers<std::int32_t>();
    case TableType::kInt64:
      return TableNumbers<std::int64_t>();
    case TableType::kFloat:
      return TableNumbers<float>();
    case TableType::kDouble:
      return TableNumbers<double>();
    case TableType::kString:
      break;
  }
  return std::vector<std::string_view>();
}

std::size_t TableColumn::value_count() const {
  return std::visit([](const auto& of_type) { return of_type.size(); }, values);
}

std::string TableBlock::where(std::size_t row) const {
  return fmt::format("{} row {}", file, first_row + row);
}

std::size_t TableBlock::column(std::string_view name) const {
  const auto found = std::ranges::find(*fields, name, &TableField::name);
  if (found == fields->end()) {
    throw NotFound("{}: no column `{}`; there are {}", file, name, names_of(*fields));
  }
  return static_cast<std::size_t>(found - fields->begin());
}

std::vector<std::size_t> wanted_columns(std::span<const TableField> fields,
                                        std::span<const std::string> names, std::string_view file) {
  std::vector<std::size_t> places;
  if (names.empty()) {
    for (std::size_t i = 0; i < fields.size(); ++i) places.push_back(i);
    return places;
  }
  for (const std::string& name : names) {
    const auto found = std::ranges::find(fields, name, &TableField::name);
    if (found == fields.end()) {
      throw NotFound("{}: no column `{}`; there are {}", file, name, names_of(fields));
    }
    places.push_back(static_cast<std::size_t>(found - fields.begin()));
  }
  return places;
}

}  // namespace muster
