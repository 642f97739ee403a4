#include "muster/data/features/feature_column.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column.h"
#include "muster/data/features/merged_specs_internal.h"

namespace muster {
namespace internal {

const FeatureColumn& require_categorical(const FeatureColumn& column, std::string_view maker) {
  if (column.is_sequence()) {
    throw InvalidArgument("{}: \"{}\" is a sequence; read it with sequence_input()", maker,
                          column.name());
  }
  if (!column.is_categorical()) {
    throw InvalidArgument("{} needs a categorical column, which \"{}\" is not", maker,
                          column.name());
  }
  return column;
}

std::string require_key(std::string key, std::string_view maker) {
  if (key.empty()) throw InvalidArgument("{}: the key must not be empty", maker);
  return key;
}

}  // namespace internal

FeatureColumn::FeatureColumn(std::shared_ptr<const internal::Column> column)
    : column_(std::move(column)) {
  if (!column_) throw InvalidArgument("a feature column needs something behind it");
}

const std::string& FeatureColumn::name() const { return column_->name(); }

bool FeatureColumn::is_categorical() const { return column_->ids() != nullptr; }

bool FeatureColumn::is_dense() const {
  return column_->numbers() != nullptr || column_->embedding() != nullptr;
}

bool FeatureColumn::is_sequence() const { return column_->step() != nullptr; }

std::int64_t FeatureColumn::num_buckets() const {
  const auto* source = is_sequence() ? column_->step()->ids() : column_->ids();
  if (!source) throw InvalidArgument("column \"{}\" is not categorical: it has no buckets", name());
  return source->num_buckets();
}

std::int64_t FeatureColumn::width() const {
  if (const auto* table = column_->embedding()) return table->dimension;
  const auto* source = is_sequence() ? column_->step()->numbers() : column_->numbers();
  if (!source) {
    throw InvalidArgument(
        "column \"{}\" is categorical: it has no width before an indicator_column or an "
        "embedding_column is made of it",
        name());
  }
  return source->width();
}

const EmbeddingTable* FeatureColumn::embedding() const { return column_->embedding(); }

FeatureSpecs FeatureColumn::parse_specs() const { return column_->parse_specs(); }

FeatureSpecs make_parse_example_spec(const FeatureColumnList& columns) {
  internal::MergedSpecs specs;
  for (const auto& column : columns) specs.add(column.parse_specs(), column.name());
  return specs.take();
}

}  // namespace muster
