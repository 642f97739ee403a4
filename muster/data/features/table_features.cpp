#include "muster/data/features/table_features.h"

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/features/collate.h"

namespace muster {
namespace {

/// Rows of a batch that follow each other in one block.
struct RowRun {
  const TableBlock* block = nullptr;
  std::size_t begin = 0;
  std::size_t count = 0;
};

std::vector<RowRun> runs_of(std::span<const TableRow> rows) {
  std::vector<RowRun> runs;
  for (const TableRow& row : rows) {
    if (!runs.empty() && runs.back().block == row.block.get() &&
        runs.back().begin + runs.back().count == row.row) {
      ++runs.back().count;
    } else {
      runs.push_back({row.block.get(), row.row, 1});
    }
  }
  return runs;
}

using BlockOwners = std::vector<std::shared_ptr<const TableBlock>>;

std::shared_ptr<const BlockOwners> owners_of(std::span<const TableRow> rows) {
  BlockOwners owners;
  for (const TableRow& row : rows) {
    if (owners.empty() || owners.back() != row.block) owners.push_back(row.block);
  }
  return std::make_shared<const BlockOwners>(std::move(owners));
}

void check_same_fields(const TableBlock& block, const TableBlock& first) {
  if (block.fields == first.fields) return;
  const auto differs = [&](std::size_t i) {
    const TableField& left = (*block.fields)[i];
    const TableField& right = (*first.fields)[i];
    return left.name != right.name || left.type != right.type ||
           left.list_depth != right.list_depth;
  };
  if (block.fields->size() != first.fields->size()) {
    throw InvalidArgument("{} has {} columns, but {} has {}", block.file, block.fields->size(),
                          first.file, first.fields->size());
  }
  for (std::size_t i = 0; i < first.fields->size(); ++i) {
    if (!differs(i)) continue;
    throw InvalidArgument("column {} of {} is `{}` ({}), but that of {} is `{}` ({})", i,
                          block.file, (*block.fields)[i].name, name_of((*block.fields)[i].type),
                          first.file, (*first.fields)[i].name, name_of((*first.fields)[i].type));
  }
}

template <typename T>
T default_as(const TableField& field, const TableDefaults::mapped_type& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
  } else {
    const auto* whole = std::get_if<std::int64_t>(&value);
    if constexpr (std::is_floating_point_v<T>) {
      if (whole != nullptr) return static_cast<T>(*whole);
      if (const auto* number = std::get_if<double>(&value)) return static_cast<T>(*number);
    } else {
      if (whole != nullptr && std::in_range<T>(*whole)) return static_cast<T>(*whole);
    }
  }
  throw InvalidArgument("the default of `{}` is no {}", field.name, name_of(field.type));
}

/// Gathers one column; T is the type it has in batches, From the one in blocks.
template <typename T, typename From>
class ColumnGather {
 public:
  ColumnGather(std::span<const RowRun> runs, std::size_t column, const TableDefaults& defaults)
      : runs_(runs), column_(column), field_((*runs.front().block->fields)[column]) {
    const auto found = defaults.find(field_.name);
    if (found == defaults.end()) return;
    has_default_ = true;
    default_ = default_as<T>(field_, found->second);
  }

  std::vector<T> values(std::size_t rows) {
    out_.reserve(rows);
    for (const RowRun& run : runs_) append(run, run.begin, run.begin + run.count);
    return std::move(out_);
  }
  /// Values of lists, and where each row's begin.
  std::pair<std::vector<T>, std::vector<std::int64_t>> lists() {
    std::vector<std::int64_t> splits{0};
    for (const RowRun& run : runs_) {
      const auto& from = run.block->columns[column_].splits.front();
      const std::int64_t shift = static_cast<std::int64_t>(out_.size()) - from[run.begin];
      for (std::size_t i = 1; i <= run.count; ++i) splits.push_back(from[run.begin + i] + shift);
      append(run, static_cast<std::size_t>(from[run.begin]),
             static_cast<std::size_t>(from[run.begin + run.count]));
    }
    return {std::move(out_), std::move(splits)};
  }

 private:
  void append(const RowRun& run, std::size_t begin, std::size_t end) {
    const TableColumn& column = run.block->columns[column_];
    const auto& from = std::get<From>(column.values);
    const std::size_t before = out_.size();
    out_.insert(out_.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
                from.begin() + static_cast<std::ptrdiff_t>(end));
    if (column.valid.empty()) return;
    for (std::size_t i = begin; i < end; ++i) {
      if (column.valid[i] != 0) continue;
      if (!has_default_) fail_missing(run, i);
      out_[before + i - begin] = default_;
    }
  }

  [[noreturn]] void fail_missing(const RowRun& run, std::size_t value) const {
    std::size_t row = value;
    if (field_.list_depth > 0) {
      const auto& splits = run.block->columns[column_].splits.front();
      row = 0;
      while (splits[row + 1] <= static_cast<std::int64_t>(value)) ++row;
    }
    throw InvalidArgument("{}: `{}` is missing; give the column a default", run.block->where(row),
                          field_.name);
  }

  std::span<const RowRun> runs_;
  std::size_t column_;
  const TableField& field_;
  bool has_default_ = false;
  T default_{};
  std::vector<T> out_{};
};

/// Both the rows of a batch and what its strings need.
struct GatherContext {
  std::span<const RowRun> runs{};
  std::int64_t rows = 0;
  std::shared_ptr<const BlockOwners> owners{};
  const TableDefaults& defaults;
};

/// Owner of a default's text, too.
std::shared_ptr<const void> owner_with_default(const GatherContext& context) {
  using Both = std::pair<std::shared_ptr<const BlockOwners>, TableDefaults>;
  return std::make_shared<const Both>(context.owners, context.defaults);
}

FeatureValue gather_strings(const GatherContext& context, std::size_t column, bool is_list) {
  using Values = std::vector<std::string_view>;
  // Strings that are defaults are views of the copy that the owner has.
  const auto owner = owner_with_default(context);
  const auto& defaults =
      static_cast<const std::pair<std::shared_ptr<const BlockOwners>, TableDefaults>*>(owner.get())
          ->second;
  ColumnGather<std::string_view, Values> gather(context.runs, column, defaults);
  if (!is_list) {
    return StringColumn(gather.values(static_cast<std::size_t>(context.rows)), {context.rows},
                        owner);
  }
  auto [values, splits] = gather.lists();
  return StringColumn::ragged(std::move(values), std::move(splits), owner);
}

template <typename T, typename From>
FeatureValue gather_numbers(const GatherContext& context, std::size_t column, bool is_list) {
  ColumnGather<T, From> gather(context.runs, column, context.defaults);
  if (!is_list) {
    return tensor_of(gather.values(static_cast<std::size_t>(context.rows)), {context.rows});
  }
  auto [values, splits] = gather.lists();
  const auto count = static_cast<std::int64_t>(values.size());
  return RaggedColumn{.values = tensor_of(std::move(values), {count}),
                      .row_splits = tensor_of(std::move(splits), {context.rows + 1})};
}

FeatureValue gather_column(const GatherContext& context, std::size_t column) {
  const TableField& field = (*context.runs.front().block->fields)[column];
  if (field.list_depth > 1) {
    throw InvalidArgument("`{}` has lists of lists, which are no feature; name the columns to read",
                          field.name);
  }
  const bool is_list = field.list_depth == 1;
  switch (field.type) {
    case TableType::kBool:
      if (is_list) {
        return gather_numbers<std::int64_t, TableNumbers<std::uint8_t>>(context, column, true);
      }
      return gather_numbers<std::int32_t, TableNumbers<std::uint8_t>>(context, column, false);
    case TableType::kInt32:
      if (is_list) {
        return gather_numbers<std::int64_t, TableNumbers<std::int32_t>>(context, column, true);
      }
      return gather_numbers<std::int32_t, TableNumbers<std::int32_t>>(context, column, false);
    case TableType::kInt64:
      return gather_numbers<std::int64_t, TableNumbers<std::int64_t>>(context, column, is_list);
    case TableType::kFloat:
      return gather_numbers<float, TableNumbers<float>>(context, column, is_list);
    case TableType::kDouble:
      return gather_numbers<double, TableNumbers<double>>(context, column, is_list);
    case TableType::kString:
      break;
  }
  return gather_strings(context, column, is_list);
}

}  // namespace

Features to_features(std::span<const TableRow> rows, const TableDefaults& defaults) {
  if (rows.empty()) throw InvalidArgument("there are no rows to make features of");
  const std::vector<RowRun> runs = runs_of(rows);
  const TableBlock& first = *runs.front().block;
  for (const RowRun& run : runs) check_same_fields(*run.block, first);
  for (const auto& [name, value] : defaults) first.column(name);
  const GatherContext context{.runs = runs,
                              .rows = static_cast<std::int64_t>(rows.size()),
                              .owners = owners_of(rows),
                              .defaults = defaults};
  Features features;
  for (std::size_t i = 0; i < first.fields->size(); ++i) {
    features.add((*first.fields)[i].name, gather_column(context, i));
  }
  return features;
}

}  // namespace muster
