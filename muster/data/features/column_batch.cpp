#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/data/features/column_batch.h"
#include "muster/data/features/column_cache.h"

namespace muster {

ColumnCache::ColumnCache(const Features& features)
    : batch_(std::make_unique<internal::ColumnBatch>(features)) {}
ColumnCache::~ColumnCache() = default;

namespace internal {
namespace {

std::int64_t* int64s(const at::Tensor& tensor) {
  return static_cast<std::int64_t*>(tensor.data_ptr());
}

std::int64_t count(std::size_t size) { return static_cast<std::int64_t>(size); }

// Most ragged features have one value a row, and are read faster as rows of one.
RowLayout simplified(RowLayout layout) {
  for (std::int64_t row = 0; row <= layout.rows; ++row) {
    if (layout.starts[row] != row) return layout;
  }
  return {.rows = layout.rows};
}

RowLayout layout_of(const StringColumn& strings) {
  RowLayout layout{.rows = strings.rows()};
  if (!strings.is_ragged()) {
    const auto& shape = strings.shape();
    layout.per_row =
        std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
    return layout;
  }
  layout.splits = at::empty({layout.rows + 1}, at::kLong);
  std::int64_t* starts = int64s(layout.splits);
  starts[0] = 0;
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    starts[row + 1] = starts[row] + count(strings.row(row).size());
  }
  layout.starts = starts;
  return simplified(std::move(layout));
}

HashedStrings hash(const StringColumn& strings) {
  HashedStrings hashed{
      .words = strings.values(), .layout = layout_of(strings), .dense = !strings.is_ragged()};
  hashed.fingerprints = std::make_unique_for_overwrite<std::uint64_t[]>(hashed.words.size());
  bool some_empty = false;
  for (std::size_t i = 0; i < hashed.words.size(); ++i) {
    hashed.fingerprints[i] = fingerprint64(hashed.words[i]);
    some_empty = some_empty || hashed.words[i].empty();
  }
  hashed.some_missing = hashed.dense && some_empty;
  return hashed;
}

at::Tensor as_int64s(const at::Tensor& tensor) {
  return tensor.to(at::kCPU, at::kLong).contiguous();
}

bool holds_whole_numbers(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
}

}  // namespace

ColumnIds::ColumnIds(RowLayout row_layout, std::int64_t ids)
    : layout(std::move(row_layout)),
      values(at::empty({ids}, at::kLong)),
      data(int64s(values)),
      size(ids) {}

RowLayout ragged_layout(const at::Tensor& row_splits, std::int64_t values, const std::string& key) {
  RowLayout layout{.rows = row_splits.size(0) - 1, .splits = row_splits.contiguous()};
  layout.starts = int64s(layout.splits);
  const std::span starts(layout.starts, static_cast<std::size_t>(layout.rows + 1));
  if (starts.front() != 0 || starts.back() != values || !std::ranges::is_sorted(starts)) {
    throw InvalidArgument("feature \"{}\": row splits must rise from 0 to the number of values, {}",
                          key, values);
  }
  return simplified(std::move(layout));
}

bool same_layout(const RowLayout& left, const RowLayout& right) {
  if (left.rows != right.rows) return false;
  if (!left.starts && !right.starts) return left.per_row == right.per_row;
  for (std::int64_t row = 0; row <= left.rows; ++row) {
    if (left.begin(row) != right.begin(row)) return false;
  }
  return true;
}

const FeatureValue& ColumnBatch::raw(const std::string& key, const Column& column) const {
  if (const auto* value = features_.find(key)) return *value;
  throw NotFound("column \"{}\" needs the feature \"{}\"; there are: {}", column.name(), key,
                 features_.empty() ? "none" : features_.names());
}

const HashedStrings& ColumnBatch::strings(const std::string& key, const Column& column) {
  const FeatureValue& value = raw(key, column);
  for (const auto& [known, hashed] : strings_) {
    if (known == &value) return hashed;
  }
  const auto* strings = std::get_if<StringColumn>(&value);
  if (!strings) {
    throw InvalidArgument("column \"{}\" reads strings, but the feature \"{}\" is {}",
                          column.name(), key, describe(value));
  }
  return strings_.emplace_back(&value, hash(*strings)).second;
}

WholeNumbers ColumnBatch::whole_numbers(const std::string& key, const Column& column) const {
  const FeatureValue& value = raw(key, column);
  WholeNumbers result;
  if (const auto* tensor = std::get_if<at::Tensor>(&value);
      tensor && holds_whole_numbers(*tensor)) {
    result.values = as_int64s(*tensor);
    const std::int64_t rows = tensor->size(0);
    result.layout = {.rows = rows, .per_row = rows == 0 ? 1 : tensor->numel() / rows};
  } else if (const auto* ragged = std::get_if<RaggedColumn>(&value);
             ragged && holds_whole_numbers(ragged->values) && ragged->values.dim() == 1) {
    if (ragged->weights.defined()) {
      throw InvalidArgument(
          "column \"{}\": the feature \"{}\" carries weights, which nothing here reads; make them "
          "a feature of their own, for weighted_categorical_column",
          column.name(), key);
    }
    result.values = as_int64s(ragged->values);
    result.layout = ragged_layout(ragged->row_splits, ragged->values.size(0), key);
    result.dense = false;
  } else {
    throw InvalidArgument("column \"{}\" reads whole numbers, but the feature \"{}\" is {}",
                          column.name(), key, describe(value));
  }
  result.numbers = {int64s(result.values), static_cast<std::size_t>(result.values.numel())};
  return result;
}

const ColumnIds& ColumnBatch::ids(const IdSource& source) {
  for (const auto& [known, ids] : ids_) {
    if (known == &source) return ids;
  }
  // Computed before the place is taken: it asks for the ids of others.
  auto made = source.compute_ids(*this);
  return ids_.emplace_back(&source, std::move(made)).second;
}

const at::Tensor& ColumnBatch::numbers(const NumericColumn& column) {
  for (const auto& [known, numbers] : numbers_) {
    if (known == &column) return numbers;
  }
  return numbers_.emplace_back(&column, column.compute_numbers(*this)).second;
}

const at::Tensor& ColumnBatch::uniform_splits(std::int64_t per_row) {
  for (const auto& [known, splits] : uniform_splits_) {
    if (known == per_row) return splits;
  }
  at::Tensor splits = at::empty({rows() + 1}, at::kLong);
  std::int64_t* starts = int64s(splits);
  for (std::int64_t row = 0; row <= rows(); ++row) starts[row] = row * per_row;
  return uniform_splits_.emplace_back(per_row, std::move(splits)).second;
}

at::Tensor ColumnBatch::splits_of(const RowLayout& layout) {
  return layout.starts ? layout.splits : uniform_splits(layout.per_row);
}

}  // namespace internal
}  // namespace muster
