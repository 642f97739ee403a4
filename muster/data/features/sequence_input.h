#pragma once

#include "muster/data/features/feature_column.h"

namespace muster {

/// Values of sequence columns for a batch, padded to the longest example.
struct SequenceInput {
  /// float [rows, steps, width]: the numeric columns side by side, in the order of their names.
  /// Padding after an example's end is the column's default_value, or 0. Undefined without such
  /// columns.
  at::Tensor values{};
  /// int64 [rows, steps], one a categorical column, under its name. -1 after an example's end and
  /// for words that the column does not know.
  Features ids{};
  /// int64 [rows]: the steps of each example.
  at::Tensor lengths{};
};

/// Ragged features have as many steps as values; those of a numeric column with a shape are taken
/// in groups of that many. In dense features "" and -1 at the end of a row are no steps. Throws
/// InvalidArgument for no columns, for one that is not a sequence, and where two columns disagree
/// about an example's length; else as ColumnSet::pieces().
SequenceInput sequence_input(FeatureColumnList columns, const Features& features);

}  // namespace muster
