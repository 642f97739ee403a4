#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/data/features/column_set.h"
#include "muster/nn/model/sparse_tables.h"

namespace muster {

namespace internal {
class TableGradients;
}

struct LinearModelOptions {
  /// Made with ColumnUse::kLinear; models may share it.
  std::shared_ptr<const ColumnSet> columns{};
  std::int64_t units = 1;
  /// How the weights of several ids of one example become one.
  Combiner sparse_combiner = Combiner::kSum;
};

/// A weighted sum over feature columns, with the variables `<column>/weights`, [buckets, units] for
/// a categorical column and [width, units] for numbers, and `bias_weights` [units]. All begin with
/// 0. The tables of categorical columns have gradients by rows.
class LinearModel : public torch::nn::Module, public SparseTables {
 public:
  /// Throws InvalidArgument without columns, for columns made for another use, or without units.
  explicit LinearModel(LinearModelOptions options);
  ~LinearModel() override;

  /// The logits [rows, units]. Throws as ColumnSet::pieces() does.
  torch::Tensor forward(const Features& features);
  torch::Tensor forward(const std::vector<ColumnPiece>& pieces);

  /// The part of all weights, without the bias, that are exactly 0: one number.
  torch::Tensor fraction_of_zero_weights() const;
  const torch::Tensor& bias() const { return bias_; }
  const ColumnSet& columns() const { return *options_.columns; }

  std::vector<at::Tensor> tables() const override;
  void keep_row_gradients() override;
  std::vector<RowGradient> take_row_gradients() override;

 private:
  struct Batch;
  class Node;

  torch::Tensor forward_by_loops(const std::vector<ColumnPiece>& pieces);
  torch::Tensor forward_by_tensors(const std::vector<ColumnPiece>& pieces);
  torch::Tensor forward_traced(const std::vector<ColumnPiece>& pieces);

  LinearModelOptions options_;
  /// One a column, in the order of columns().
  std::vector<torch::Tensor> weights_;
  torch::Tensor bias_;
  /// By column; a dense column has none.
  std::vector<std::size_t> table_of_column_;
  /// Set once rows are kept.
  std::shared_ptr<internal::TableGradients> gradients_;
};

}  // namespace muster
