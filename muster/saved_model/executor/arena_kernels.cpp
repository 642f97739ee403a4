#include "muster/saved_model/executor/arena_kernels_internal.h"

#include <algorithm>

namespace muster::executor {
namespace {

const ArenaEntry* arena_entry(std::string_view op) {
  for (const ArenaFactories family :
       {arena::array_ops(), arena::math_ops(), arena::gather_ops(), arena::column_ops(),
        arena::cross_ops(), arena::layer_ops(), arena::sparse_ops(), arena::choice_ops()}) {
    const auto found = std::ranges::find(family, op, &ArenaEntry::op);
    if (found != family.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

bool may_be_in_arena(std::string_view op) { return arena_entry(op) != nullptr; }

ArenaOp arena_op(const ArenaNode& node) {
  const ArenaEntry* const entry = arena_entry(node.op);
  if (entry == nullptr || node.constants.size() < entry->inputs) return {};
  return entry->make(node);
}

}  // namespace muster::executor
