#include <utility>

#include "muster/nn/model/table_gradients_internal.h"

namespace muster::internal {

void TableGradients::add(std::size_t table, std::span<const RowTerm> terms, std::int64_t row_count,
                         std::int64_t width) {
  if (terms.empty()) return;
  const auto count = static_cast<std::int64_t>(sum_.plan(terms, row_count));
  RowGradient gradient = empty_row_gradient(count, width);
  sum_.write(static_cast<std::size_t>(width), gradient.rows.data_ptr<std::int64_t>(),
             gradient.values.data_ptr<float>());
  RowGradient& pending = pending_[table];
  pending = pending.empty() ? std::move(gradient) : add_rows(pending, gradient);
}

std::vector<RowGradient> TableGradients::take() {
  return std::exchange(pending_, std::vector<RowGradient>(pending_.size()));
}

std::vector<RowTerm>& TableGradients::scratch() {
  scratch_.clear();
  return scratch_;
}

}  // namespace muster::internal
