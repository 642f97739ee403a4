#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/data/features/feature_column.h"
#include "muster/train/boosted_trees/boosted_trees_booster_internal.h"

namespace muster::internal {

/// Features of examples as trees see them: the numbers of its columns, side by side. A numeric
/// column is its values, without those that are NaN; a bucketized one the number of the bucket, so
/// that its order counts; an indicator the ids that occur, the rest being absent. Immutable.
class TreeFeatures {
 public:
  /// Where a column's numbers are.
  struct Place {
    std::int64_t first = 0;
    std::int64_t width = 0;
  };

  /// Sorts by name. Throws InvalidArgument, naming the column, for no columns, two of a name, or
  /// one that trees cannot read, saying what to use instead.
  explicit TreeFeatures(FeatureColumnList columns);

  std::span<const FeatureColumn> columns() const { return columns_; }
  /// One a column.
  std::span<const Place> places() const { return places_; }
  std::int64_t width() const { return width_; }
  /// "age[1]", "education_indicator[16]": what a checkpoint keeps, to know its own again.
  std::vector<std::string> descriptions() const;

  /// No rows yet.
  SparseRows make_rows() const { return {.width = width_}; }
  /// Adds the rows of a batch. Throws NotFound for a missing feature, InvalidArgument for one of
  /// the wrong type or an infinite value, naming the column.
  void append(const Features& features, SparseRows& rows) const;

 private:
  FeatureColumnList columns_;
  std::vector<Place> places_;
  std::int64_t width_ = 0;
};

}  // namespace muster::internal
