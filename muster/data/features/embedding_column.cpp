#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column.h"

namespace muster {
namespace internal {

EmbeddingColumn::EmbeddingColumn(std::string name, const FeatureColumn& categorical,
                                 EmbeddingTable table)
    : Column(std::move(name)), categorical_(categorical), table_(std::move(table)) {}

}  // namespace internal

namespace {

EmbeddingTable make_table(std::string name, std::int64_t rows, std::int64_t dimension,
                          const EmbeddingColumnOptions& options) {
  if (dimension < 1) {
    throw InvalidArgument("embedding column \"{}\": dimension must be positive: {}", name,
                          dimension);
  }
  if (options.initial_stddev && !(*options.initial_stddev > 0)) {
    throw InvalidArgument("embedding column \"{}\": initial_stddev must be positive: {}", name,
                          *options.initial_stddev);
  }
  if (options.max_norm && !(*options.max_norm > 0)) {
    throw InvalidArgument("embedding column \"{}\": max_norm must be positive: {}", name,
                          *options.max_norm);
  }
  if (options.checkpoint_to_load_from.empty() != options.tensor_name_in_checkpoint.empty()) {
    throw InvalidArgument(
        "embedding column \"{}\": checkpoint_to_load_from and tensor_name_in_checkpoint belong "
        "together: give both or none",
        name);
  }
  const double stddev =
      options.initial_stddev.value_or(1 / std::sqrt(static_cast<double>(dimension)));
  return {.rows = rows,
          .dimension = dimension,
          .combiner = options.combiner,
          .name = std::move(name),
          .initial_stddev = stddev,
          .max_norm = options.max_norm,
          .trainable = options.trainable,
          .checkpoint_to_load_from = options.checkpoint_to_load_from,
          .tensor_name_in_checkpoint = options.tensor_name_in_checkpoint};
}

// The names, sorted, and what they share.
std::string shared_name(const FeatureColumnList& categoricals) {
  std::vector<std::string> names;
  for (const auto& column : categoricals) names.push_back(column.name());
  std::ranges::sort(names);
  return fmt::format("{}_shared_embedding", fmt::join(names, "_"));
}

}  // namespace

FeatureColumn embedding_column(const FeatureColumn& categorical, std::int64_t dimension,
                               EmbeddingColumnOptions options) {
  internal::require_categorical(categorical, "embedding_column");
  const std::string name = categorical.name() + "_embedding";
  return internal::make_column<internal::EmbeddingColumn>(
      name, categorical, make_table(name, categorical.num_buckets(), dimension, options));
}

FeatureColumnList shared_embedding_columns(const FeatureColumnList& categoricals,
                                           std::int64_t dimension, EmbeddingColumnOptions options) {
  if (categoricals.empty()) throw InvalidArgument("shared_embedding_columns needs columns");
  for (const auto& column : categoricals) {
    internal::require_categorical(column, "shared_embedding_columns");
    if (column.num_buckets() != categoricals[0].num_buckets()) {
      throw InvalidArgument(
          "shared_embedding_columns: columns that share a table must have the same number of "
          "buckets, but \"{}\" has {} and \"{}\" has {}",
          categoricals[0].name(), categoricals[0].num_buckets(), column.name(),
          column.num_buckets());
    }
  }
  const EmbeddingTable table =
      make_table(shared_name(categoricals), categoricals[0].num_buckets(), dimension, options);
  FeatureColumnList columns;
  for (const auto& column : categoricals) {
    columns.push_back(internal::make_column<internal::EmbeddingColumn>(
        column.name() + "_shared_embedding", column, table));
  }
  return columns;
}

}  // namespace muster
