#include "muster/data/features/sequence_input.h"

#include <ATen/TracerMode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column_batch.h"

namespace muster {
namespace {

using internal::ColumnBatch;
using internal::ColumnIds;
using internal::NumericColumn;
using internal::RowLayout;

// The steps of one column, one example after the other.
struct Steps {
  std::string column{};
  /// Where the steps of each row begin, counted in steps.
  RowLayout layout{};
  std::vector<std::int64_t> lengths{};
  /// int64 [n], or float [n, width] of a numeric column.
  at::Tensor values{};
  at::Scalar padding{};
};

// Whether a value of a dense feature stands for none.
bool is_missing(const FeatureValue& raw, std::int64_t place) {
  if (const auto* strings = std::get_if<StringColumn>(&raw)) {
    return !strings->is_ragged() && strings->values()[static_cast<std::size_t>(place)].empty();
  }
  const auto* tensor = std::get_if<at::Tensor>(&raw);
  return tensor && tensor->flatten()[place].item<std::int64_t>() == -1;
}

Steps categorical_steps(ColumnBatch& batch, const internal::Column& column) {
  const ColumnIds& ids = batch.ids(*column.ids());
  Steps steps{.column = column.name(), .layout = ids.layout, .values = ids.values, .padding = -1};
  const FeatureValue& raw = batch.raw(column.name(), column);
  for (std::int64_t row = 0; row < ids.layout.rows; ++row) {
    auto end = ids.layout.end(row);
    while (end > ids.layout.begin(row) && ids.data[end - 1] < 0 && is_missing(raw, end - 1)) --end;
    steps.lengths.push_back(end - ids.layout.begin(row));
  }
  return steps;
}

// The values' layout counted in steps of `width` values.
RowLayout in_steps(const RowLayout& layout, std::int64_t width, const std::string& column) {
  RowLayout steps{.rows = layout.rows, .splits = at::empty({layout.rows + 1}, at::kLong)};
  auto* starts = static_cast<std::int64_t*>(steps.splits.data_ptr());
  for (std::int64_t row = 0; row <= layout.rows; ++row) {
    if (layout.begin(row) % width != 0) {
      throw InvalidArgument(
          "column \"{}\": row {} of the feature has {} values, which are no whole steps of {}",
          column, row - 1, layout.end(row - 1) - layout.begin(row - 1), width);
    }
    starts[row] = layout.begin(row) / width;
  }
  steps.starts = starts;
  return steps;
}

Steps numeric_steps(ColumnBatch& batch, const NumericColumn& column) {
  const FeatureValue& raw = batch.raw(column.key(), column);
  at::Tensor values;
  RowLayout layout;
  if (const auto* ragged = std::get_if<RaggedColumn>(&raw)) {
    values = ragged->values;
    const auto inner = values.numel() / std::max<std::int64_t>(values.size(0), 1);
    layout = internal::ragged_layout(ragged->row_splits, values.size(0), column.key());
    if (inner > 1) {
      // Each value already is a step.
      if (inner != column.width()) {
        throw InvalidArgument("column \"{}\" has {} numbers a step, but the feature is {}",
                              column.name(), column.width(), describe(raw));
      }
    } else {
      layout = in_steps(layout, column.width(), column.name());
    }
  } else if (const auto* tensor = std::get_if<at::Tensor>(&raw)) {
    values = *tensor;
    const auto rows = tensor->size(0);
    layout = in_steps({.rows = rows, .per_row = rows == 0 ? 0 : tensor->numel() / rows},
                      column.width(), column.name());
  } else {
    throw InvalidArgument("column \"{}\" reads numbers, but the feature \"{}\" is {}",
                          column.name(), column.key(), describe(raw));
  }
  values = values.reshape({-1, column.width()});
  if (column.options().normalizer) values = column.options().normalizer(values);
  const auto& defaults = column.options().default_value;
  Steps steps{.column = column.name(),
              .layout = layout,
              .values = values.detach().to(at::kCPU, at::kFloat).reshape({-1, column.width()}),
              .padding = defaults.empty() ? 0.0F : defaults[0]};
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    steps.lengths.push_back(layout.end(row) - layout.begin(row));
  }
  return steps;
}

Steps steps_of(ColumnBatch& batch, const FeatureColumn& column) {
  const auto* step = column.internal().step();
  if (!step) {
    throw InvalidArgument(
        "column \"{}\" is not a sequence: make it with sequence_numeric_column or "
        "sequence_categorical_column_...",
        column.name());
  }
  if (const auto* numeric = dynamic_cast<const NumericColumn*>(step)) {
    return numeric_steps(batch, *numeric);
  }
  return categorical_steps(batch, *step);
}

void check_lengths(const Steps& first, const Steps& other) {
  for (std::size_t row = 0; row < first.lengths.size(); ++row) {
    if (first.lengths[row] != other.lengths[row]) {
      throw InvalidArgument("the columns \"{}\" and \"{}\" have {} and {} steps in row {}",
                            first.column, other.column, first.lengths[row], other.lengths[row],
                            row);
    }
  }
}

// [rows, longest], or [rows, longest, width] of a numeric column.
at::Tensor padded(const Steps& steps, std::int64_t longest) {
  auto shape = steps.values.sizes().vec();
  shape.insert(shape.begin(), steps.layout.rows);
  shape[1] = longest;
  at::Tensor result = at::full(shape, steps.padding, steps.values.scalar_type());
  for (std::int64_t row = 0; row < steps.layout.rows; ++row) {
    const auto length = steps.lengths[static_cast<std::size_t>(row)];
    const auto begin = steps.layout.begin(row);
    result[row].slice(0, 0, length).copy_(steps.values.slice(0, begin, begin + length));
  }
  return result;
}

}  // namespace

SequenceInput sequence_input(FeatureColumnList columns, const Features& features) {
  if (columns.empty()) throw InvalidArgument("sequence_input needs at least one column");
  std::ranges::stable_sort(columns, {}, &FeatureColumn::name);
  if (at::tracer::impl::is_dispatch_enabled()) {
    throw Unimplemented("sequence column \"{}\": sequences cannot be exported", columns[0].name());
  }
  ColumnBatch batch(features);
  std::vector<Steps> all;
  for (const auto& column : columns) {
    all.push_back(steps_of(batch, column));
    check_lengths(all[0], all.back());
  }
  const auto& lengths = all[0].lengths;
  const auto longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  SequenceInput input;
  std::vector<at::Tensor> numbers;
  for (const Steps& steps : all) {
    at::Tensor value = padded(steps, longest);
    if (value.dim() == 3) {
      numbers.push_back(std::move(value));
    } else {
      input.ids.add(steps.column, std::move(value));
    }
  }
  if (!numbers.empty()) input.values = at::cat(numbers, 2);
  input.lengths = at::empty({batch.rows()}, at::kLong);
  std::ranges::copy(lengths, static_cast<std::int64_t*>(input.lengths.data_ptr()));
  return input;
}

}  // namespace muster
