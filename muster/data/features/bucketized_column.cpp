#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column_batch.h"

namespace muster {
namespace internal {
namespace {

// How many boundaries are not above the number; all of them for one that is no number.
std::int64_t bucket_of(float number, const std::vector<float>& boundaries) {
  constexpr std::size_t kFewBoundaries = 32;
  if (boundaries.size() > kFewBoundaries) {
    return std::ranges::upper_bound(boundaries, number) - boundaries.begin();
  }
  std::int64_t bucket = 0;
  for (const float boundary : boundaries) bucket += number < boundary ? 0 : 1;
  return bucket;
}

const NumericColumn& require_numeric(const FeatureColumn& source) {
  const auto* numeric = dynamic_cast<const NumericColumn*>(&source.internal());
  if (!numeric) {
    throw InvalidArgument("bucketized_column: the source must be a numeric column, \"{}\" is not",
                          source.name());
  }
  if (numeric->options().shape.size() > 1) {
    throw InvalidArgument(
        "bucketized_column: the source must have one dimension, but \"{}\" has shape [{}]",
        source.name(), fmt::join(numeric->options().shape, ", "));
  }
  return *numeric;
}

}  // namespace

BucketizedColumn::BucketizedColumn(const FeatureColumn& source, std::vector<float> boundaries)
    : Column(source.name() + "_bucketized"),
      source_(source),
      numeric_(&require_numeric(source_)),
      boundaries_(std::move(boundaries)) {
  const bool rising =
      std::ranges::adjacent_find(boundaries_, std::greater_equal<>()) == boundaries_.end();
  if (boundaries_.empty() || !rising ||
      std::ranges::any_of(boundaries_, [](float boundary) { return std::isnan(boundary); })) {
    throw InvalidArgument("bucketized_column \"{}\": boundaries must be there and rise: [{}]",
                          source.name(), fmt::join(boundaries_, ", "));
  }
}

std::int64_t BucketizedColumn::width() const {
  return numeric_->width() * (static_cast<std::int64_t>(boundaries_.size()) + 1);
}

ColumnIds BucketizedColumn::compute_ids(ColumnBatch& batch) const {
  const auto per_row = numeric_->width();
  const auto buckets = static_cast<std::int64_t>(boundaries_.size()) + 1;
  ColumnIds ids({.rows = batch.rows(), .per_row = per_row}, batch.rows() * per_row);
  with_numbers(batch.numbers(*numeric_), [&](const auto* numbers) {
    for (std::int64_t i = 0; i < ids.size; ++i) {
      const auto offset = per_row == 1 ? 0 : i % per_row * buckets;
      ids.data[i] = offset + bucket_of(static_cast<float>(numbers[i]), boundaries_);
    }
  });
  return ids;
}

void BucketizedColumn::fill(ColumnBatch& batch, float* out, std::int64_t stride) const {
  const ColumnIds& ids = batch.ids(*this);
  const auto per_row = numeric_->width();
  for (std::int64_t i = 0; i < ids.size; ++i) out[i / per_row * stride + ids.data[i]] = 1;
}

}  // namespace internal

FeatureColumn bucketized_column(const FeatureColumn& source, std::vector<float> boundaries) {
  return internal::make_column<internal::BucketizedColumn>(source, std::move(boundaries));
}

}  // namespace muster
