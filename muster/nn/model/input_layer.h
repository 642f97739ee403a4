#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/features/column_set.h"
#include "muster/nn/model/seeded_module.h"
#include "muster/nn/model/sparse_tables.h"

namespace muster {

namespace internal {
class TableGradients;
}

/// Values of a batch's feature columns, side by side in the order of their names: the input of a
/// network. The tables of embedding columns are its variables `<table>/embedding_weights` [rows,
/// dimension], filled from a truncated normal; columns that share a table share the variable, and
/// one that is not to be trained has no gradient. Gradients of tables come by rows.
class InputLayer : public torch::nn::Module, public SeededModule, public SparseTables {
 public:
  /// `columns` is made with ColumnUse::kInputLayer; models may share it. Throws InvalidArgument
  /// without columns, for columns made for another use, or when columns disagree about a table they
  /// share.
  explicit InputLayer(std::shared_ptr<const ColumnSet> columns);
  ~InputLayer() override;

  /// [rows, width()]. An example without ids gives zeros for an embedding. Throws as
  /// ColumnSet::pieces() does.
  torch::Tensor forward(const Features& features);
  torch::Tensor forward(const std::vector<ColumnPiece>& pieces);

  /// Numbers an example.
  std::int64_t width() const { return width_; }
  const ColumnSet& columns() const { return *columns_; }

  void seed_from(std::uint64_t seed, const std::string& name) override;
  std::vector<at::Tensor> tables() const override;
  void keep_row_gradients() override;
  std::vector<RowGradient> take_row_gradients() override;

 private:
  struct Table;
  struct Batch;
  class Node;

  std::size_t add_table(const FeatureColumn& column);
  bool has_gradients() const;
  torch::Tensor forward_by_loops(const std::vector<ColumnPiece>& pieces);
  torch::Tensor forward_by_tensors(const std::vector<ColumnPiece>& pieces);

  std::shared_ptr<const ColumnSet> columns_;
  std::vector<Table> tables_;
  std::size_t trained_ = 0;
  /// By column: its place in tables_; others have none.
  std::vector<std::size_t> table_of_column_;
  /// By column: where its numbers begin.
  std::vector<std::int64_t> offsets_;
  std::int64_t width_ = 0;
  /// Set once rows are kept.
  std::shared_ptr<internal::TableGradients> gradients_;
};

}  // namespace muster
