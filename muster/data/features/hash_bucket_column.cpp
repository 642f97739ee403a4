#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/word_ids_internal.h"

namespace muster {
namespace internal {

HashBucketColumn::HashBucketColumn(std::string key, std::int64_t hash_bucket_size,
                                   CategoryType type)
    : Column(require_key(std::move(key), "categorical_column_with_hash_bucket")),
      hash_bucket_size_(hash_bucket_size),
      type_(type) {
  if (hash_bucket_size < 1) {
    throw InvalidArgument(
        "categorical_column_with_hash_bucket \"{}\": hash_bucket_size must be positive: {}", name(),
        hash_bucket_size);
  }
}

FeatureSpecs HashBucketColumn::parse_specs() const { return var_len_words(key(), type_); }

ColumnIds HashBucketColumn::compute_ids(ColumnBatch& batch) const {
  const auto buckets = static_cast<std::uint64_t>(hash_bucket_size_);
  return ids_of_words(batch, *this, key(), type_,
                      [buckets](std::string_view, std::uint64_t fingerprint) {
                        return static_cast<std::int64_t>(fingerprint % buckets);
                      });
}

}  // namespace internal

FeatureColumn categorical_column_with_hash_bucket(std::string key, std::int64_t hash_bucket_size,
                                                  CategoryType type) {
  return internal::make_column<internal::HashBucketColumn>(std::move(key), hash_bucket_size, type);
}

}  // namespace muster
