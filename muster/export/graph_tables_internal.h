#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/data/features/column.h"
#include "muster/export/graph_builder_internal.h"
#include "muster/saved_model/graph/saved_model.h"

namespace muster::exporting {

/// Tables of words that a graph holds, and the files behind them. One for a graph, whatever its
/// ways in.
class GraphTables {
 public:
  /// The node of the table that holds this column's vocabulary: words, or int64 numbers, into
  /// ids.
  std::string table_of(const internal::VocabularyColumn& column, GraphBuilder& builder);

  /// Adds the operation that fills all tables, if there are any, and says to `meta` that it is to
  /// be run after loading.
  void finish(GraphBuilder& builder, graph::MetaGraph& meta);
  /// Returns the contents of the files in assets/, by name.
  std::vector<std::pair<std::string, std::string>> take_assets() { return std::move(assets_); }

 private:
  std::string asset_of(const internal::VocabularyColumn& column, GraphBuilder& builder);

  std::vector<std::pair<const internal::VocabularyColumn*, std::string>> tables_;
  std::vector<std::string> initializers_;
  std::vector<std::pair<std::string, std::string>> assets_;
  /// By asset: the node that holds its path.
  std::vector<std::string> asset_nodes_;
};

}  // namespace muster::exporting
