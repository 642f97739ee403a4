#include <algorithm>
#include <limits>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/tables/table_builder_internal.h"

namespace muster {

TableBuilder::TableBuilder(std::shared_ptr<const std::vector<TableField>> fields, std::string file)
    : fields_(std::move(fields)), file_(std::move(file)) {
  for (std::size_t i = 0; i < fields_->size(); ++i) {
    const TableField& field = (*fields_)[i];
    if (!places_.emplace(field.name, i).second) {
      throw InvalidArgument("{}: two columns are called `{}`", file_, field.name);
    }
    if (field.list_depth > 1) {
      throw InvalidArgument("{}: `{}` cannot be lists of lists here", file_, field.name);
    }
  }
  begin_block();
}

void TableBuilder::begin_block() {
  block_ = std::make_shared<TableBlock>();
  strings_ = std::make_shared<std::deque<std::string>>();
  rows_ = 0;
  for (const TableField& field : *fields_) {
    TableColumn& column = block_->columns.emplace_back();
    column.values = no_values(field.type);
    if (field.list_depth > 0) column.splits.push_back({0});
    if (field.type == TableType::kString) column.owners.push_back(strings_);
  }
}

std::optional<std::size_t> TableBuilder::find(std::string_view name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

void TableBuilder::note_valid(TableColumn& column, bool is_there) {
  const std::size_t count = column.value_count();
  if (column.valid.empty()) {
    if (is_there) return;
    column.valid.assign(count - 1, 1);
  }
  column.valid.push_back(is_there ? 1 : 0);
}

void TableBuilder::fail_type(std::size_t column, std::string_view value) const {
  const TableField& field = (*fields_)[column];
  throw InvalidArgument("`{}` is {}, not {}", field.name, value, name_of(field.type));
}

void TableBuilder::add_bool(std::size_t column, bool value) {
  auto* const values = std::get_if<TableNumbers<std::uint8_t>>(&block_->columns[column].values);
  if (values == nullptr) fail_type(column, value ? "true" : "false");
  values->push_back(value ? 1 : 0);
  note_valid(block_->columns[column], true);
}

void TableBuilder::add_int(std::size_t column, std::int64_t value) {
  TableColumn& to = block_->columns[column];
  const TableType type = (*fields_)[column].type;
  switch (type) {
    case TableType::kInt32:
      if (!std::in_range<std::int32_t>(value)) fail_type(column, fmt::format("{}", value));
      std::get<TableNumbers<std::int32_t>>(to.values).push_back(static_cast<std::int32_t>(value));
      break;
    case TableType::kInt64:
      std::get<TableNumbers<std::int64_t>>(to.values).push_back(value);
      break;
    case TableType::kFloat:
      std::get<TableNumbers<float>>(to.values).push_back(static_cast<float>(value));
      break;
    case TableType::kDouble:
      std::get<TableNumbers<double>>(to.values).push_back(static_cast<double>(value));
      break;
    case TableType::kBool:
    case TableType::kString:
      fail_type(column, fmt::format("{}", value));
  }
  note_valid(to, true);
}

void TableBuilder::add_double(std::size_t column, double value) {
  TableColumn& to = block_->columns[column];
  if (auto* const floats = std::get_if<TableNumbers<float>>(&to.values)) {
    floats->push_back(static_cast<float>(value));
  } else if (auto* const doubles = std::get_if<TableNumbers<double>>(&to.values)) {
    doubles->push_back(value);
  } else {
    fail_type(column, fmt::format("{}", value));
  }
  note_valid(to, true);
}

void TableBuilder::add_string(std::size_t column, std::string value) {
  TableColumn& to = block_->columns[column];
  auto* const strings = std::get_if<std::vector<std::string_view>>(&to.values);
  if (strings == nullptr) fail_type(column, fmt::format("\"{}\"", value.substr(0, 40)));
  strings->push_back(strings_->emplace_back(std::move(value)));
  note_valid(to, true);
}

void TableBuilder::add_missing(std::size_t column) {
  TableColumn& to = block_->columns[column];
  std::visit([](auto& values) { values.push_back({}); }, to.values);
  note_valid(to, false);
}

std::size_t TableBuilder::value_begin(std::size_t column) const {
  const TableColumn& of = block_->columns[column];
  return of.splits.empty() ? rows_ : static_cast<std::size_t>(of.splits.front().back());
}

void TableBuilder::end_row() {
  for (std::size_t i = 0; i < fields_->size(); ++i) {
    TableColumn& column = block_->columns[i];
    if (!column.splits.empty()) continue;
    const std::size_t values = column.value_count() - rows_;
    if (values > 1) {
      throw InvalidArgument("`{}` has {} values in one row; it is no list", (*fields_)[i].name,
                            values);
    }
    if (values == 0) add_missing(i);
  }
  for (TableColumn& column : block_->columns) {
    if (column.splits.empty()) continue;
    column.splits.front().push_back(static_cast<std::int64_t>(column.value_count()));
  }
  ++rows_;
}

void TableBuilder::drop_row() {
  for (std::size_t i = 0; i < fields_->size(); ++i) {
    const std::size_t count = value_begin(i);
    TableColumn& column = block_->columns[i];
    std::visit([count](auto& values) { values.resize(count); }, column.values);
    if (!column.valid.empty()) column.valid.resize(count);
  }
}

std::shared_ptr<const TableBlock> TableBuilder::take(std::uint64_t first_row) {
  block_->fields = fields_;
  block_->rows = rows_;
  block_->file = file_;
  block_->first_row = first_row;
  std::shared_ptr<const TableBlock> taken = std::move(block_);
  begin_block();
  return taken;
}

TypeGuess::Seen& TypeGuess::of(const std::string& name) {
  const auto [found, is_new] = places_.emplace(name, seen_.size());
  if (is_new) seen_.push_back({.name = name});
  return seen_[found->second];
}

void TypeGuess::see(const std::string& name, Kind kind, bool is_list) {
  Seen& seen = of(name);
  if (std::ranges::find(seen.kinds, kind) == seen.kinds.end()) seen.kinds.push_back(kind);
  (is_list ? seen.is_list : seen.is_value) = true;
}
void TypeGuess::see_missing(const std::string& name) { of(name); }
void TypeGuess::see_list(const std::string& name) { of(name).is_list = true; }

std::vector<TableField> TypeGuess::fields(std::string_view file, const GuessRules& rules) const {
  std::vector<TableField> fields;
  for (const Seen& seen : seen_) {
    const auto has = [&](Kind kind) {
      return std::ranges::find(seen.kinds, kind) != seen.kinds.end();
    };
    const bool is_number = has(Kind::kInt) || has(Kind::kDouble);
    const bool is_mixed = has(Kind::kBool) + has(Kind::kString) + is_number > 1;
    if ((is_mixed && !rules.is_string_if_mixed) ||
        (seen.is_list && seen.is_value && !rules.is_list_if_any)) {
      throw InvalidArgument(
          "{}: `{}` has values of different types, such as a number and a string, "
          "or lists and single values; name the columns to read",
          file, seen.name);
    }
    TableField& field = fields.emplace_back();
    field.name = seen.name;
    field.list_depth = seen.is_list ? 1 : 0;
    if (is_mixed) continue;
    if (has(Kind::kBool)) field.type = TableType::kBool;
    if (has(Kind::kInt)) field.type = TableType::kInt64;
    if (has(Kind::kDouble)) field.type = TableType::kDouble;
  }
  return fields;
}

}  // namespace muster
