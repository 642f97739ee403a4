#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "muster/train/compiler/fused_kernel.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/program_builder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

/// The place that a program's only store copies from its only load, widened; nothing for others.
std::optional<ValueId> widened_by(const Graph& graph, const Node& node) {
  const FusedKernel* const kernel = fused_kernel(node);
  if (kernel == nullptr || !node.writes.empty()) return std::nullopt;
  const Program& program = kernel->program();
  const bool copies = program.kind == Program::Kind::kElements && program.inputs.size() == 1 &&
                      program.outputs.size() == 1 && program.stores.size() == 1 &&
                      program.code.size() == 1 && program.code[0].op == ScalarOp::kLoad;
  if (!copies) return std::nullopt;
  const ValueId from = values_read(node)[0];
  const ValueId to = values_made(node)[0];
  const Geometry& narrow = graph.geometry(from);
  const Geometry& wide = graph.geometry(to);
  const bool alike = narrow.sizes == wide.sizes && narrow.strides == wide.strides &&
                     wide.type == at::kFloat && is_short_float(narrow.type) && wide.offset == 0;
  return alike ? std::optional(from) : std::nullopt;
}

/// Has programs read what a cast read, where it is there still.
class CastReaders {
 public:
  explicit CastReaders(Graph& graph) : graph_(graph), uses_(graph) {}

  void rewrite() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (fused_kernel(graph_.nodes[i]) != nullptr) rewrite(static_cast<NodeId>(i));
    }
  }

 private:
  void rewrite(NodeId id) {
    Node& node = graph_.nodes[Graph::index(id)];
    const FusedKernel& kernel = *fused_kernel(node);
    Program program = kernel.program();
    std::vector<ValueId> inputs = values_read(node);
    bool changed = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto before = is_written(program, i) ? std::nullopt : before_cast(inputs[i], id);
      if (!before) continue;
      inputs[i] = *before;
      program.inputs[i].type = graph_.geometry(*before).type;
      program.inputs[i].aligned = is_aligned(graph_.geometry(*before));
      changed = true;
    }
    if (!changed) return;
    node = program_node(std::move(program), kernel.operations(), inputs, values_made(node),
                        node.writes);
  }

  static bool is_written(const Program& program, std::size_t input) {
    return std::ranges::any_of(program.stores, [&](const Program::Store& store) {
      return store.into_input && store.place == static_cast<int>(input);
    });
  }

  // The same elements of what was cast.
  std::optional<ValueId> before_cast(ValueId value, NodeId reader) {
    if (!uses_.is_pure_value(value)) return std::nullopt;
    const NodeId maker = uses_.of_value(value).maker;
    const auto from = widened_by(graph_, graph_.nodes[Graph::index(maker)]);
    if (!from || graph_.geometry(value).type != at::kFloat ||
        uses_.changes_between(graph_.storage_of(*from), maker, reader)) {
      return std::nullopt;
    }
    Geometry part = graph_.geometry(value);
    part.type = graph_.geometry(*from).type;
    part.offset += graph_.geometry(*from).offset;
    return graph_.value(graph_.storage_of(*from), part);
  }

  Graph& graph_;
  Uses uses_;
};

// Sums of columns, and copies to where the step leaves them: they join what makes their operands,
// where nothing else reads that before.
bool goes_early(const Graph& graph, const Node& node) {
  const FusedKernel* const kernel = fused_kernel(node);
  if (kernel == nullptr) return false;
  const auto kind = kernel->program().kind;
  if (kind == Program::Kind::kColumnSums || kind == Program::Kind::kColumns) return true;
  return kernel->program().outputs.empty() &&
         std::ranges::all_of(node.writes, [&](ValueId written) {
           return graph.storage(graph.storage_of(written)).kind == Storage::Kind::kExternal;
         });
}

}  // namespace

void order_programs(Graph& graph) {
  CastReaders(graph).rewrite();
  remove_dead_work(graph);
  std::vector<Footprint> footprints;
  for (const Node& node : graph.nodes) footprints.push_back(footprint_of(graph, node));
  const auto move = [](auto& all, std::size_t from, std::size_t to) {
    const auto first = all.begin();
    std::rotate(first + static_cast<std::ptrdiff_t>(to), first + static_cast<std::ptrdiff_t>(from),
                first + static_cast<std::ptrdiff_t>(from) + 1);
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!goes_early(graph, graph.nodes[i])) continue;
    std::size_t to = i;
    while (to > 0 && are_independent(footprints[to - 1], footprints[i])) --to;
    move(graph.nodes, i, to);
    move(footprints, i, to);
  }
}

}  // namespace muster::compiler
