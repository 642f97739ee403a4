#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "muster/data/features/column_cache.h"
#include "muster/data/features/feature_column.h"

namespace muster {

/// Use that a model makes of the columns.
enum class ColumnUse {
  /// A linear model: ids where a column is categorical, else numbers.
  kLinear,
  /// The input of a network: numbers, and the ids of embeddings.
  kInputLayer,
};

/// Value of a run of neighbouring columns for a batch.
struct ColumnPiece {
  /// columns()[first] to columns()[first + count - 1]; one column where the value is ids.
  std::size_t first = 0;
  std::size_t count = 1;
  /// float [rows, sum of widths], or ids: a RaggedColumn of int64 with their weights. Negative ids
  /// and, for embeddings, weights that are not positive are dropped. Columns of one id a row share
  /// one row_splits tensor.
  FeatureValue value{};
};

/// The columns of one model, and all they make of a batch, each shared part once. Immutable: one
/// object serves any number of threads, training, evaluation, prediction and export.
class ColumnSet {
 public:
  /// Sorts by name. Throws InvalidArgument for no columns, two of the same name, or a column that
  /// this use has no place for: a categorical one as network input (wrap it in an indicator or an
  /// embedding), an embedding in a linear model, a sequence in either.
  ColumnSet(FeatureColumnList columns, ColumnUse use);
  ~ColumnSet();
  ColumnSet(ColumnSet&&) noexcept;
  ColumnSet& operator=(ColumnSet&&) noexcept;

  /// In the order of their names.
  std::span<const FeatureColumn> columns() const { return columns_; }
  ColumnUse use() const { return use_; }

  /// One piece for each column with ids, and for each run of columns without variables one block of
  /// numbers, in the order of columns(). Takes from `features` what prepare() left there; else it
  /// computes, on the CPU. Throws NotFound for a missing feature, InvalidArgument for one of the
  /// wrong type or shape, OutOfRange for an id that an identity column has no bucket for, naming
  /// column and feature; Unimplemented where it would have to compute in a trace.
  std::vector<ColumnPiece> pieces(const Features& features) const;
  /// The same for one of several sets that read one batch: they share what both compute.
  std::vector<ColumnPiece> pieces(ColumnCache& cache) const;

  /// The features with the pieces added, for input pipelines that prepare batches beside training.
  /// The raw features stay. A set of the same columns for the same use finds the pieces again, also
  /// after slice() and to().
  Features prepare(Features features) const;
  /// The names under which prepare() leaves the pieces, in their order.
  std::vector<std::string> prepared_names() const;

 private:
  struct Plan;
  FeatureColumnList columns_;
  ColumnUse use_;
  std::unique_ptr<const Plan> plan_;
};

}  // namespace muster
