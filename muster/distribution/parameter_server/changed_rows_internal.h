#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/nn/model/row_gradient.h"
#include "muster/nn/optim/variables.h"

namespace muster::internal {

/// The rows of all tables that were updated since a task last got values: what it must be sent.
class ChangedRows {
 public:
  explicit ChangedRows(const Variables& variables);

  /// Notes the touched rows of an update, by table.
  void add(const std::vector<RowGradient>& rows);
  /// By table, with the rows' values as they are now; nothing is noted after it.
  std::vector<RowGradient> take(const Variables& variables);
  /// The task has everything.
  void clear();

 private:
  struct Table {
    std::vector<std::int64_t> rows;
    /// By row of the table: whether it is in `rows`.
    std::vector<bool> noted;
  };
  std::vector<Table> tables_;
};

}  // namespace muster::internal
