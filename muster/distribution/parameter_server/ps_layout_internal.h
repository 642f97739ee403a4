#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/nn/optim/update.h"
#include "muster/nn/optim/updater.h"
#include "muster/nn/optim/variables.h"

namespace muster::internal {

/// Which server holds what: large variables that are not VariableSpec::whole are cut into parts,
/// between the blocks that norms are summed by, and every part goes to the server that has least. A
/// function of the variables and the number of servers alone, so every task knows it.
class PsLayout {
 public:
  PsLayout(const Variables& variables, std::size_t servers);

  std::size_t servers() const { return by_server_.size(); }
  const std::vector<VariablePart>& parts(std::size_t server) const { return by_server_[server]; }
  /// Ranges of the dense variables, in rising order; neighbours are one range, padding included.
  const std::vector<FlatRange>& flat(std::size_t server) const { return flat_[server]; }
  /// Both of the server.
  VariableShard shard(std::size_t server) const { return {by_server_[server], flat_[server]}; }
  /// Whether flat() is one range, of all dense variables.
  bool holds_all(std::size_t server) const;
  /// Elements in all of flat().
  std::int64_t flat_size(std::size_t server) const { return flat_sizes_[server]; }

  /// Writes a server's ranges, which lie one after the other, to where they belong.
  void scatter(std::size_t server, const at::Tensor& gathered, const at::Tensor& flat) const;
  /// The rows that the server holds of this table (its place in Gradients::rows).
  RowGradient rows_of(std::size_t server, std::size_t table, const RowGradient& rows) const;

 private:
  std::vector<std::vector<VariablePart>> by_server_;
  std::vector<std::vector<FlatRange>> flat_;
  std::vector<std::int64_t> flat_sizes_;
  /// By server and table: the row ranges.
  std::vector<std::vector<std::vector<FlatRange>>> rows_;
};

}  // namespace muster::internal
