#include <utility>

#include "muster/data/features/column_batch.h"

namespace muster {
namespace internal {

IndicatorColumn::IndicatorColumn(const FeatureColumn& categorical)
    : Column(require_categorical(categorical, "indicator_column").name() + "_indicator"),
      categorical_(categorical) {}

void IndicatorColumn::fill(ColumnBatch& batch, float* out, std::int64_t stride) const {
  const ColumnIds& ids = batch.ids(*categorical().ids());
  const auto* weights =
      ids.weights.defined() ? static_cast<const float*>(ids.weights.data_ptr()) : nullptr;
  for (std::int64_t row = 0; row < ids.layout.rows; ++row) {
    for (auto i = ids.layout.begin(row); i < ids.layout.end(row); ++i) {
      if (ids.data[i] >= 0) out[row * stride + ids.data[i]] += weights ? weights[i] : 1;
    }
  }
}

}  // namespace internal

FeatureColumn indicator_column(const FeatureColumn& categorical) {
  return internal::make_column<internal::IndicatorColumn>(categorical);
}

}  // namespace muster
