#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column.h"
#include "muster/data/features/column_batch.h"
#include "muster/data/features/column_cache.h"
#include "muster/train/boosted_trees/boosted_trees_features_internal.h"

namespace muster::internal {
namespace {

std::int64_t buckets_of(const BucketizedColumn& column) {
  return static_cast<std::int64_t>(column.boundaries().size()) + 1;
}

std::int64_t width_of(const FeatureColumn& column) {
  const Column& kind = column.internal();
  if (const auto* bucketized = dynamic_cast<const BucketizedColumn*>(&kind)) {
    return bucketized->source().width();
  }
  if (dynamic_cast<const NumericColumn*>(&kind) != nullptr ||
      dynamic_cast<const IndicatorColumn*>(&kind) != nullptr) {
    return column.width();
  }
  if (column.embedding() != nullptr) {
    throw InvalidArgument(
        "boosted trees cannot learn an embedding: use indicator_column instead of {}",
        column.name());
  }
  throw InvalidArgument(
      "boosted trees read numeric, bucketized and indicator columns, and {} is {}", column.name(),
      column.is_sequence() ? "a sequence" : "categorical: wrap it in an indicator_column");
}

/// Writes one column of the row that is being added.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual void write(std::int64_t row, SparseRows& rows) = 0;
};

void push(SparseRows& rows, std::int64_t column, float value) {
  rows.columns.push_back(static_cast<std::uint32_t>(column));
  rows.values.push_back(value);
}

class NumericWriter final : public Writer {
 public:
  NumericWriter(const NumericColumn& column, TreeFeatures::Place place, ColumnBatch& batch)
      : name_(column.name()), place_(place), numbers_(batch.numbers(column).to(at::kFloat)) {
    data_ = static_cast<const float*>(numbers_.data_ptr());
  }

  void write(std::int64_t row, SparseRows& rows) override {
    for (std::int64_t i = 0; i < place_.width; ++i) {
      const float value = data_[row * place_.width + i];
      if (std::isnan(value)) continue;
      if (std::isinf(value)) {
        throw InvalidArgument("the column {} is infinite in row {} of a batch", name_, row);
      }
      push(rows, place_.first + i, value);
    }
  }

 private:
  const std::string& name_;
  TreeFeatures::Place place_;
  at::Tensor numbers_;
  const float* data_ = nullptr;
};

class BucketizedWriter final : public Writer {
 public:
  BucketizedWriter(const BucketizedColumn& column, TreeFeatures::Place place, ColumnBatch& batch)
      : buckets_(buckets_of(column)), place_(place), ids_(batch.ids(column)) {}

  void write(std::int64_t row, SparseRows& rows) override {
    const std::int64_t begin = ids_.layout.begin(row);
    for (std::int64_t i = 0; i < ids_.layout.end(row) - begin; ++i) {
      const std::int64_t bucket = ids_.data[begin + i] - i * buckets_;
      if (bucket >= 0) push(rows, place_.first + i, static_cast<float>(bucket));
    }
  }

 private:
  std::int64_t buckets_;
  TreeFeatures::Place place_;
  const ColumnIds& ids_;
};

class IndicatorWriter final : public Writer {
 public:
  IndicatorWriter(const IndicatorColumn& column, TreeFeatures::Place place, ColumnBatch& batch)
      : place_(place), ids_(batch.ids(*column.categorical().ids())) {
    if (!ids_.weights.defined()) return;
    weights_ = ids_.weights.contiguous();
    weight_data_ = static_cast<const float*>(weights_.data_ptr());
  }

  void write(std::int64_t row, SparseRows& rows) override {
    counts_.clear();
    for (std::int64_t i = ids_.layout.begin(row); i < ids_.layout.end(row); ++i) {
      if (ids_.data[i] < 0) continue;
      counts_.emplace_back(ids_.data[i], weight_data_ == nullptr ? 1.0F : weight_data_[i]);
    }
    if (counts_.size() > 1) merge();
    for (const auto& [id, count] : counts_) push(rows, place_.first + id, count);
  }

 private:
  // Ids in their order, each once.
  void merge() {
    std::stable_sort(counts_.begin(), counts_.end(),
                     [](const auto& left, const auto& right) { return left.first < right.first; });
    std::size_t last = 0;
    for (std::size_t i = 1; i < counts_.size(); ++i) {
      if (counts_[i].first == counts_[last].first) {
        counts_[last].second += counts_[i].second;
      } else {
        counts_[++last] = counts_[i];
      }
    }
    counts_.resize(last + 1);
  }

  TreeFeatures::Place place_;
  const ColumnIds& ids_;
  at::Tensor weights_;
  const float* weight_data_ = nullptr;
  std::vector<std::pair<std::int64_t, float>> counts_;
};

std::unique_ptr<Writer> writer_of(const FeatureColumn& column, TreeFeatures::Place place,
                                  ColumnBatch& batch) {
  const Column& kind = column.internal();
  if (const auto* numeric = dynamic_cast<const NumericColumn*>(&kind)) {
    return std::make_unique<NumericWriter>(*numeric, place, batch);
  }
  if (const auto* bucketized = dynamic_cast<const BucketizedColumn*>(&kind)) {
    return std::make_unique<BucketizedWriter>(*bucketized, place, batch);
  }
  return std::make_unique<IndicatorWriter>(dynamic_cast<const IndicatorColumn&>(kind), place,
                                           batch);
}

}  // namespace

TreeFeatures::TreeFeatures(FeatureColumnList columns) : columns_(std::move(columns)) {
  if (columns_.empty()) throw InvalidArgument("boosted trees: feature_columns is empty");
  std::sort(columns_.begin(), columns_.end(),
            [](const auto& left, const auto& right) { return left.name() < right.name(); });
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const FeatureColumn& column = columns_[i];
    if (i > 0 && column.name() == columns_[i - 1].name()) {
      throw InvalidArgument("boosted trees: two feature_columns are named {}", column.name());
    }
    places_.push_back({.first = width_, .width = width_of(column)});
    width_ += places_.back().width;
  }
  if (width_ > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgument("boosted trees: the feature_columns make {} numbers, and {} are possible",
                          width_, std::numeric_limits<std::int32_t>::max());
  }
}

std::vector<std::string> TreeFeatures::descriptions() const {
  std::vector<std::string> descriptions;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    descriptions.push_back(fmt::format("{}[{}]", columns_[i].name(), places_[i].width));
  }
  return descriptions;
}

void TreeFeatures::append(const Features& features, SparseRows& rows) const {
  ColumnCache cache(features);
  std::vector<std::unique_ptr<Writer>> writers;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    writers.push_back(writer_of(columns_[i], places_[i], cache.internal()));
  }
  for (std::int64_t row = 0; row < features.batch_size(); ++row) {
    for (const auto& writer : writers) writer->write(row, rows);
    rows.row_splits.push_back(rows.columns.size());
  }
}

}  // namespace muster::internal
