#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column_batch.h"

namespace muster {
namespace internal {
namespace {

struct Weights {
  at::Tensor values{};
  RowLayout layout{};
};

// The raw feature as float [n] on the CPU.
Weights weights_of(ColumnBatch& batch, const std::string& key, const Column& column) {
  const FeatureValue& raw = batch.raw(key, column);
  const auto flat = [](const at::Tensor& tensor) {
    return tensor.detach().to(at::kCPU, at::kFloat).contiguous().view({-1});
  };
  if (const auto* tensor = std::get_if<at::Tensor>(&raw)) {
    const auto rows = tensor->size(0);
    return {flat(*tensor), {.rows = rows, .per_row = rows == 0 ? 1 : tensor->numel() / rows}};
  }
  if (const auto* ragged = std::get_if<RaggedColumn>(&raw)) {
    return {flat(ragged->values), ragged_layout(ragged->row_splits, ragged->values.numel(), key)};
  }
  throw InvalidArgument("column \"{}\": weights are numbers, but the feature \"{}\" is {}",
                        column.name(), key, describe(raw));
}

}  // namespace

WeightedColumn::WeightedColumn(const FeatureColumn& categorical, std::string weight_key)
    : Column(fmt::format("{}_weighted_by_{}",
                         require_categorical(categorical, "weighted_categorical_column").name(),
                         weight_key)),
      categorical_(categorical),
      weight_key_(require_key(std::move(weight_key), "weighted_categorical_column")) {
  if (dynamic_cast<const WeightedColumn*>(&categorical.internal())) {
    throw InvalidArgument("weighted_categorical_column: \"{}\" has weights already",
                          categorical.name());
  }
}

FeatureSpecs WeightedColumn::parse_specs() const {
  auto specs = categorical_.parse_specs();
  for (const auto& [key, spec] : specs) {
    if (key == weight_key_) {
      throw InvalidArgument("column \"{}\": the feature \"{}\" cannot hold both ids and weights",
                            name(), key);
    }
  }
  specs.emplace_back(weight_key_, VarLen{.kind = FeatureKind::kFloat});
  return specs;
}

ColumnIds WeightedColumn::compute_ids(ColumnBatch& batch) const {
  ColumnIds ids = batch.ids(*categorical().ids());
  Weights weights = weights_of(batch, weight_key_, *this);
  if (!same_layout(ids.layout, weights.layout)) {
    throw InvalidArgument(
        "column \"{}\": the weights \"{}\" ({}) must have as many values in every row as "
        "\"{}\", one for each",
        name(), weight_key_, describe(batch.raw(weight_key_, *this)), categorical_.name());
  }
  ids.weights = std::move(weights.values);
  return ids;
}

}  // namespace internal

FeatureColumn weighted_categorical_column(const FeatureColumn& categorical,
                                          std::string weight_key) {
  return internal::make_column<internal::WeightedColumn>(categorical, std::move(weight_key));
}

}  // namespace muster
