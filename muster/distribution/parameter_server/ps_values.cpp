#include "muster/distribution/parameter_server/ps_values_internal.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <fmt/core.h>

#include <map>
#include <utility>

#include "muster/train/engine/packed_tensors.h"

namespace muster::internal {

RunContract terms_with_backups(RunContract terms, std::int64_t backup_replicas) {
  if (backup_replicas > 0) {
    terms.arithmetic += fmt::format(", backup_replicas={}", backup_replicas);
  }
  return terms;
}

RunContract asynchronous_terms(RunContract terms, std::int64_t max_staleness) {
  terms.arithmetic += fmt::format(", asynchronous updates, max_staleness={}", max_staleness);
  return terms;
}

void put_all_values(Values& message, std::size_t server, const PsLayout& layout,
                    const Variables& variables) {
  message.values.emplace();
  message.values->flat = variables.flat();
  message.values->ranges = layout.flat(server);
  message.values->rows.resize(variables.sparse_count());
  for (const VariablePart& part : layout.parts(server)) {
    const Variable& variable = variables.all()[part.variable];
    if (!variable.sparse()) continue;
    RowGradient& rows = message.values->rows[static_cast<std::size_t>(variable.rows_index)];
    const at::Tensor numbers = at::arange(part.first, part.last, at::kLong);
    const at::Tensor values = part.of(variable.value, variable);
    rows = rows.empty()
               ? RowGradient{numbers, values}
               : RowGradient{at::cat({rows.rows, numbers}), at::cat({rows.values, values})};
  }
  if (server == 0) message.buffers.tensors = untrained(variables);
}

void write_values(const Values& message, std::size_t server, const PsLayout& layout,
                  const Variables& variables, const std::vector<at::Tensor>& buffers) {
  copy_tensors(message.buffers.tensors, buffers);
  if (!message.values) return;
  layout.scatter(server, message.values->flat, variables.flat());
  for (const Variable& variable : variables.all()) {
    if (!variable.sparse()) continue;
    const RowGradient& rows = message.values->rows[static_cast<std::size_t>(variable.rows_index)];
    if (!rows.empty()) variable.value.index_copy_(0, rows.rows, rows.values);
  }
}

std::vector<at::Tensor> untrained(const Variables& variables) {
  std::vector<at::Tensor> tensors;
  for (const Variable& variable : variables.all()) {
    if (!variable.spec.trainable) tensors.push_back(variable.value);
  }
  return tensors;
}

std::vector<at::Tensor> slot_pieces(const PsLayout& layout, std::size_t server,
                                    const Variables& variables, const Updater& updater,
                                    const ServerParts* except) {
  std::map<std::string, std::vector<at::Tensor>, std::less<>> by_variable;
  std::vector<at::Tensor> pieces;
  for (const NamedTensor& slot : updater.tensors()) {
    if (const Variable* const owner = variables.owner_of_slot(slot.name)) {
      by_variable[owner->spec.name].push_back(slot.tensor);
    } else if (server == 0) {
      pieces.push_back(slot.tensor.view({-1}));
    }
  }
  for (const VariablePart& part : layout.parts(server)) {
    const Variable& variable = variables.all()[part.variable];
    if (except != nullptr && except->has(variable.spec.name)) continue;
    for (const at::Tensor& slot : by_variable[variable.spec.name]) {
      // A slot of a whole variable may have a shape of its own.
      pieces.push_back(variable.spec.whole ? slot.view({-1}) : part.of(slot, variable));
    }
  }
  return pieces;
}

}  // namespace muster::internal
