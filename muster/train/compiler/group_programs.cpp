#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "muster/train/compiler/fused_kernel.h"
#include "muster/train/compiler/group_kernel.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/program_builder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

/// Larger programs keep a GPU busy by themselves.
constexpr std::int64_t kMostElements = 1 << 23;
/// Parameters of one kernel.
constexpr std::size_t kMostPointers = 400;

// Sums of columns need a second dimension of blocks, or memory that their block shares.
bool is_small(const Node& node) {
  const FusedKernel* const kernel = fused_kernel(node);
  return kernel != nullptr && kernel->program().sums.empty() &&
         kernel->program().elements() <= kMostElements;
}

std::size_t pointers_of(const Node& node) {
  const Program& program = fused_kernel(node)->program();
  return program.inputs.size() + program.outputs.size();
}

/// Neighbours in the graph, to become one node.
struct Group {
  std::vector<std::size_t> members{};
  std::size_t pointers = 0;
};

/// Moves small programs beside others, earlier or later, as far as no node in between depends on
/// them or they on it.
class Grouping {
 public:
  explicit Grouping(Graph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      order_.push_back(i);
      footprints_.push_back(footprint_of(graph, graph.nodes[i]));
    }
  }

  void run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (is_small(graph_.nodes[i])) add(i);
    }
    replace();
  }

 private:
  using Places = std::vector<std::size_t>::iterator;

  Places place_of(std::size_t node) { return std::ranges::find(order_, node); }

  bool is_independent_of(std::size_t node, Places first, Places last) const {
    return std::all_of(first, last, [&](std::size_t other) {
      return are_independent(footprints_[node], footprints_[other]);
    });
  }

  void add(std::size_t node) {
    const std::size_t pointers = pointers_of(graph_.nodes[node]);
    for (Group& group : groups_) {
      if (group.pointers + pointers > kMostPointers || !bring_together(group, node)) continue;
      group.members.push_back(node);
      group.pointers += pointers;
      return;
    }
    groups_.push_back({{node}, pointers});
  }

  // The node after the group, or the group in front of the node.
  bool bring_together(const Group& group, std::size_t node) {
    const Places first = place_of(group.members.front());
    const Places end = first + static_cast<std::ptrdiff_t>(group.members.size());
    const Places place = place_of(node);
    if (is_independent_of(node, first, place)) {
      std::rotate(end, place, place + 1);
      return true;
    }
    const bool all_wait = std::all_of(
        first, end, [&](std::size_t member) { return is_independent_of(member, end, place + 1); });
    if (all_wait) std::rotate(first, end, place);
    return all_wait;
  }

  Node joined(const Group& group) const {
    std::vector<Program> programs;
    Node made;
    for (const std::size_t i : group.members) {
      const Node& node = graph_.nodes[i];
      programs.push_back(fused_kernel(node)->program());
      for (const ValueId value : values_read(node)) made.arguments.push_back(tensor(value));
      for (const ValueId value : values_made(node)) {
        made.results.push_back({.place = made.results.size(), .value = value});
      }
      made.writes.insert(made.writes.end(), node.writes.begin(), node.writes.end());
    }
    made.kernel = std::make_shared<GroupKernel>(std::move(programs));
    return made;
  }

  void replace() {
    std::vector<std::optional<Node>> joints(graph_.nodes.size());
    std::vector<bool> dead(graph_.nodes.size(), false);
    for (const Group& group : groups_) {
      if (group.members.size() < 2) continue;
      for (const std::size_t i : group.members) dead[i] = true;
      joints[group.members.front()] = joined(group);
    }
    std::vector<Node> nodes;
    for (const std::size_t i : order_) {
      if (joints[i]) {
        nodes.push_back(std::move(*joints[i]));
      } else if (!dead[i]) {
        nodes.push_back(std::move(graph_.nodes[i]));
      }
    }
    graph_.nodes = std::move(nodes);
  }

  Graph& graph_;
  /// Nodes as they will run.
  std::vector<std::size_t> order_{};
  std::vector<Footprint> footprints_{};
  std::vector<Group> groups_{};
};

}  // namespace

void group_programs(Graph& graph) { Grouping(graph).run(); }

}  // namespace muster::compiler
