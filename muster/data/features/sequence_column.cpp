#include <utility>

#include "muster/data/features/column.h"

namespace muster {
namespace internal {

SequenceColumn::SequenceColumn(const FeatureColumn& step) : Column(step.name()), step_(step) {}

FeatureSpecs SequenceColumn::parse_specs() const {
  if (step_.is_categorical()) return step_.parse_specs();
  return {{name(), VarLen{.kind = FeatureKind::kFloat}}};
}

}  // namespace internal

using internal::make_column;
using internal::SequenceColumn;

FeatureColumn sequence_numeric_column(std::string key, NumericColumnOptions options) {
  return make_column<SequenceColumn>(numeric_column(std::move(key), std::move(options)));
}

FeatureColumn sequence_categorical_column_with_hash_bucket(std::string key,
                                                           std::int64_t hash_bucket_size,
                                                           CategoryType type) {
  return make_column<SequenceColumn>(
      categorical_column_with_hash_bucket(std::move(key), hash_bucket_size, type));
}

FeatureColumn sequence_categorical_column_with_identity(std::string key, std::int64_t num_buckets,
                                                        std::optional<std::int64_t> default_value) {
  return make_column<SequenceColumn>(
      categorical_column_with_identity(std::move(key), num_buckets, default_value));
}

FeatureColumn sequence_categorical_column_with_vocabulary_list(std::string key,
                                                               std::vector<std::string> vocabulary,
                                                               VocabularyOptions options) {
  return make_column<SequenceColumn>(
      categorical_column_with_vocabulary_list(std::move(key), std::move(vocabulary), options));
}

FeatureColumn sequence_categorical_column_with_vocabulary_file(
    std::string key, const Path& file, std::optional<std::int64_t> vocabulary_size,
    VocabularyOptions options) {
  return make_column<SequenceColumn>(categorical_column_with_vocabulary_file(
      std::move(key), file, vocabulary_size, CategoryType::kString, options));
}

}  // namespace muster
