#include "muster/data/features/column_set.h"

#include <ATen/TracerMode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/data/features/column_batch.h"

namespace muster {

using internal::ColumnBatch;
using internal::ColumnIds;

/// How each piece is made.
struct ColumnSet::Plan {
  struct Piece {
    std::size_t first = 0;
    std::size_t count = 1;
    /// Source of ids; null for a block of numbers.
    const internal::IdSource* ids = nullptr;
    bool embedded = false;
    /// Sources of a block of numbers.
    std::vector<const internal::NumberSource*> numbers{};
    std::int64_t width = 0;
    /// Under which prepare() leaves it.
    std::string feature{};
  };
  std::vector<Piece> pieces{};
};

namespace {

// The ids' source, or null for a column of numbers.
const internal::IdSource* ids_for(const FeatureColumn& column, ColumnUse use) {
  if (column.is_sequence()) {
    throw InvalidArgument("column \"{}\" is a sequence; read it with sequence_input()",
                          column.name());
  }
  const internal::Column& inner = column.internal();
  if (use == ColumnUse::kLinear) {
    if (column.embedding()) {
      throw InvalidArgument(
          "column \"{}\" is an embedding, which a linear model has no place for: give the "
          "categorical column itself",
          column.name());
    }
    return inner.ids();
  }
  if (const auto* embedding = dynamic_cast<const internal::EmbeddingColumn*>(&inner)) {
    return embedding->categorical().ids();
  }
  if (!column.is_dense()) {
    throw InvalidArgument(
        "column \"{}\" is categorical, which a network has no place for: wrap it in an "
        "indicator_column or an embedding_column",
        column.name());
  }
  return nullptr;
}

// A name for what a set like this makes of a batch, the same for every copy of the set.
std::string identity_of(std::span<const FeatureColumn> columns, ColumnUse use) {
  const bool linear = use == ColumnUse::kLinear;
  std::string text;
  for (const auto& column : columns) {
    text += fmt::format("{}\n{}\n", column.name(),
                        linear && column.is_categorical() ? column.num_buckets() : column.width());
  }
  return fmt::format("columns/{}/{:016x}", linear ? "linear" : "input_layer", fingerprint64(text));
}

// The ids that count, and their weights.
RaggedColumn copy_kept(const ColumnIds& ids, bool positive_only) {
  const auto* weights =
      ids.weights.defined() ? static_cast<const float*>(ids.weights.data_ptr()) : nullptr;
  const auto rows = ids.layout.rows;
  at::Tensor splits = at::empty({rows + 1}, at::kLong);
  at::Tensor values = at::empty({ids.size}, at::kLong);
  at::Tensor kept_weights = weights ? at::empty({ids.size}, at::kFloat) : at::Tensor();
  auto* starts = static_cast<std::int64_t*>(splits.data_ptr());
  auto* kept = static_cast<std::int64_t*>(values.data_ptr());
  auto* out_weights = weights ? static_cast<float*>(kept_weights.data_ptr()) : nullptr;
  std::int64_t size = 0;
  starts[0] = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (auto i = ids.layout.begin(row); i < ids.layout.end(row); ++i) {
      if (ids.data[i] < 0 || (positive_only && weights && !(weights[i] > 0))) continue;
      kept[size] = ids.data[i];
      if (weights) out_weights[size] = weights[i];
      ++size;
    }
    starts[row + 1] = size;
  }
  return {.values = values.slice(0, 0, size),
          .row_splits = std::move(splits),
          .weights = weights ? kept_weights.slice(0, 0, size) : at::Tensor()};
}

RaggedColumn ids_value(ColumnBatch& batch, const internal::IdSource& source, bool positive_only) {
  const ColumnIds& ids = batch.ids(source);
  if (!ids.whole || (positive_only && ids.weights.defined())) return copy_kept(ids, positive_only);
  return {.values = ids.values, .row_splits = batch.splits_of(ids.layout), .weights = ids.weights};
}

at::Tensor block(ColumnBatch& batch, std::span<const internal::NumberSource* const> sources,
                 std::int64_t width) {
  at::Tensor numbers = at::empty({batch.rows(), width}, at::kFloat);
  auto* out = static_cast<float*>(numbers.data_ptr());
  std::fill_n(out, batch.rows() * width, 0.0F);
  for (const auto* source : sources) {
    source->fill(batch, out, width);
    out += source->width();
  }
  return numbers;
}

void check_names(std::span<const FeatureColumn> columns) {
  if (columns.empty()) throw InvalidArgument("a column set needs at least one column");
  for (std::size_t i = 1; i < columns.size(); ++i) {
    if (columns[i - 1].name() == columns[i].name()) {
      throw InvalidArgument("two columns have the name \"{}\"", columns[i].name());
    }
  }
}

}  // namespace

ColumnSet::ColumnSet(FeatureColumnList columns, ColumnUse use)
    : columns_(std::move(columns)), use_(use) {
  std::ranges::stable_sort(columns_, {}, &FeatureColumn::name);
  check_names(columns_);
  Plan plan;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const auto* ids = ids_for(columns_[i], use_);
    if (ids) {
      plan.pieces.push_back({.first = i, .ids = ids, .embedded = use_ == ColumnUse::kInputLayer});
      continue;
    }
    if (plan.pieces.empty() || plan.pieces.back().ids) plan.pieces.push_back({.first = i});
    auto& piece = plan.pieces.back();
    piece.count = i + 1 - piece.first;
    piece.numbers.push_back(columns_[i].internal().numbers());
    piece.width += columns_[i].width();
  }
  const std::string identity = identity_of(columns_, use_);
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    plan.pieces[i].feature = fmt::format("{}/{}", identity, i);
  }
  plan_ = std::make_unique<const Plan>(std::move(plan));
}

ColumnSet::~ColumnSet() = default;
ColumnSet::ColumnSet(ColumnSet&&) noexcept = default;
ColumnSet& ColumnSet::operator=(ColumnSet&&) noexcept = default;

std::vector<ColumnPiece> ColumnSet::pieces(const Features& features) const {
  ColumnCache cache(features);
  return pieces(cache);
}

std::vector<ColumnPiece> ColumnSet::pieces(ColumnCache& cache) const {
  ColumnBatch& batch = cache.internal();
  const Features& features = batch.features();
  const bool prepared = features.contains(plan_->pieces[0].feature);
  // Computations here leave no operations: an export would hold the ids of its example.
  if (!prepared && at::tracer::impl::is_dispatch_enabled()) {
    throw Unimplemented(
        "column \"{}\" cannot be exported: its model reads feature columns beside its InputLayer "
        "and LinearModel modules; register those as modules and let them read the features",
        columns_.front().name());
  }
  std::vector<ColumnPiece> result;
  result.reserve(plan_->pieces.size());
  for (const auto& piece : plan_->pieces) {
    ColumnPiece& made =
        result.emplace_back(ColumnPiece{.first = piece.first, .count = piece.count});
    if (prepared) {
      made.value = features.at(piece.feature);
    } else if (piece.ids) {
      made.value = ids_value(batch, *piece.ids, piece.embedded);
    } else {
      made.value = block(batch, piece.numbers, piece.width);
    }
  }
  return result;
}

Features ColumnSet::prepare(Features features) const {
  auto made = pieces(features);
  for (std::size_t i = 0; i < made.size(); ++i) {
    features.set(plan_->pieces[i].feature, std::move(made[i].value));
  }
  return features;
}

std::vector<std::string> ColumnSet::prepared_names() const {
  std::vector<std::string> names;
  for (const auto& piece : plan_->pieces) names.push_back(piece.feature);
  return names;
}

}  // namespace muster
