#include <ATen/ops/empty.h>

#include <algorithm>

#include "muster/distribution/parameter_server/changed_rows_internal.h"

namespace muster::internal {

ChangedRows::ChangedRows(const Variables& variables) : tables_(variables.sparse_count()) {
  for (const Variable& variable : variables.all()) {
    if (!variable.sparse()) continue;
    tables_[static_cast<std::size_t>(variable.rows_index)].noted.resize(
        static_cast<std::size_t>(variable.value.size(0)));
  }
}

void ChangedRows::add(const std::vector<RowGradient>& rows) {
  for (std::size_t t = 0; t < rows.size(); ++t) {
    if (rows[t].empty()) continue;
    Table& table = tables_[t];
    const std::int64_t* row = rows[t].rows.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < rows[t].rows.numel(); ++i) {
      auto noted = table.noted[static_cast<std::size_t>(row[i])];
      if (noted) continue;
      noted = true;
      table.rows.push_back(row[i]);
    }
  }
}

std::vector<RowGradient> ChangedRows::take(const Variables& variables) {
  std::vector<RowGradient> changed(tables_.size());
  for (const Variable& variable : variables.all()) {
    if (!variable.sparse()) continue;
    const auto t = static_cast<std::size_t>(variable.rows_index);
    std::vector<std::int64_t>& rows = tables_[t].rows;
    if (rows.empty()) continue;
    std::ranges::sort(rows);
    const at::Tensor numbers = at::empty({static_cast<std::int64_t>(rows.size())}, at::kLong);
    std::ranges::copy(rows, numbers.data_ptr<std::int64_t>());
    changed[t] = {numbers, variable.value.index_select(0, numbers)};
  }
  clear();
  return changed;
}

void ChangedRows::clear() {
  for (Table& table : tables_) {
    for (const std::int64_t row : table.rows) table.noted[static_cast<std::size_t>(row)] = false;
    table.rows.clear();
  }
}

}  // namespace muster::internal
