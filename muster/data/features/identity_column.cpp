#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column_batch.h"

namespace muster {
namespace internal {

IdentityColumn::IdentityColumn(std::string key, std::int64_t num_buckets,
                               std::optional<std::int64_t> default_value)
    : Column(require_key(std::move(key), "categorical_column_with_identity")),
      num_buckets_(num_buckets),
      default_value_(default_value) {
  if (num_buckets < 1) {
    throw InvalidArgument(
        "categorical_column_with_identity \"{}\": num_buckets must be positive: "
        "{}",
        name(), num_buckets);
  }
  if (default_value && (*default_value < 0 || *default_value >= num_buckets)) {
    throw InvalidArgument(
        "categorical_column_with_identity \"{}\": default_value must be in [0, {}): {}", name(),
        num_buckets, *default_value);
  }
}

FeatureSpecs IdentityColumn::parse_specs() const {
  return {{key(), VarLen{.kind = FeatureKind::kInt64}}};
}

ColumnIds IdentityColumn::compute_ids(ColumnBatch& batch) const {
  const WholeNumbers values = batch.whole_numbers(key(), *this);
  ColumnIds ids(values.layout, static_cast<std::int64_t>(values.numbers.size()));
  for (std::size_t i = 0; i < values.numbers.size(); ++i) {
    const auto number = values.numbers[i];
    if (number >= 0 && number < num_buckets_) {
      ids.data[i] = number;
    } else if (number == -1 && values.dense) {
      ids.data[i] = -1;
      ids.whole = false;
    } else if (default_value_) {
      ids.data[i] = *default_value_;
    } else {
      throw OutOfRange(
          "column \"{}\": the feature \"{}\" has the id {}, not in [0, {}); give the column a "
          "default_value if such ids are to be expected",
          name(), key(), number, num_buckets_);
    }
  }
  return ids;
}

}  // namespace internal

FeatureColumn categorical_column_with_identity(std::string key, std::int64_t num_buckets,
                                               std::optional<std::int64_t> default_value) {
  return internal::make_column<internal::IdentityColumn>(std::move(key), num_buckets,
                                                         default_value);
}

}  // namespace muster
