#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "muster/train/compiler/fused_kernel.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/program_join.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph), uses_(graph) {}

  /// Joins one pair of nodes; false where there is none left.
  bool fuse_one() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (fused_kernel(graph_.nodes[i]) == nullptr) continue;
      const auto consumer = static_cast<NodeId>(i);
      for (const ValueId value : values_read(graph_.nodes[i])) {
        const NodeId producer = producer_of(value, consumer);
        if (producer >= 0 && join(producer, consumer)) return true;
      }
    }
    return false;
  }

 private:
  const Node& node(NodeId id) const { return graph_.nodes[Graph::index(id)]; }

  // The node whose program makes or writes this value.
  NodeId producer_of(ValueId value, NodeId consumer) const {
    const NodeId producer =
        uses_.is_pure_value(value) ? uses_.of_value(value).maker : writer_before(value, consumer);
    const bool found =
        producer >= 0 && producer < consumer && fused_kernel(node(producer)) != nullptr;
    return found ? producer : -1;
  }

  // The last node in front of the consumer that writes what the value reads; -1 where there is
  // none.
  NodeId writer_before(ValueId value, NodeId consumer) const {
    const auto& writers = uses_.of_value(value).writers;
    for (std::size_t i = writers.size(); i-- > 0;) {
      const NodeId writer = writers[i];
      const auto& written = node(writer).writes;
      const bool overlaps = std::ranges::any_of(
          written, [&](ValueId one) { return may_share_memory(graph_, one, value); });
      if (writer < consumer && overlaps) return writer;
    }
    return -1;
  }

  // Whether the producer can run where the consumer is: nothing in between reads what it makes or
  // changes, or changes what it reads.
  bool can_wait(NodeId producer, NodeId consumer) const {
    const auto is_first_reader = [&](ValueId made) {
      const Uses::OfStorage& of = uses_.of_value(made);
      const bool changed = std::ranges::any_of(of.writers, [&](NodeId w) { return w < consumer; });
      return !changed && (of.readers.empty() || of.readers.front() >= consumer);
    };
    const auto is_unchanged = [&](ValueId read) {
      return none_between(uses_.of_value(read).writers, producer, consumer,
                          [&](NodeId writer) { return touches(node(writer).writes, read); });
    };
    const auto is_not_read = [&](ValueId written) {
      return none_between(uses_.of_value(written).readers, producer, consumer, [&](NodeId reader) {
        return touches(values_read(node(reader)), written);
      });
    };
    return std::ranges::all_of(values_made(node(producer)), is_first_reader) &&
           std::ranges::all_of(values_read(node(producer)), is_unchanged) &&
           std::ranges::all_of(node(producer).writes, is_not_read);
  }

  static bool none_between(const std::vector<NodeId>& nodes, NodeId first, NodeId last,
                           const auto& is_so) {
    return std::ranges::none_of(
        nodes, [&](NodeId one) { return one > first && one < last && is_so(one); });
  }

  bool touches(const std::vector<ValueId>& values, ValueId value) const {
    return std::ranges::any_of(values,
                               [&](ValueId one) { return may_share_memory(graph_, one, value); });
  }

  // Whether the consumer can run where the producer is.
  bool can_rise(NodeId producer, NodeId consumer) const {
    const Footprint own = footprint_of(graph_, node(consumer));
    for (NodeId i = producer + 1; i < consumer; ++i) {
      if (!are_independent(own, footprint_of(graph_, node(i)))) return false;
    }
    return true;
  }

  std::vector<ValueId> unneeded(const BoundProgram& producer, NodeId consumer) const {
    std::vector<ValueId> values;
    for (const ValueId made : producer.outputs) {
      if (uses_.is_read_only_by(graph_.storage_of(made), consumer)) values.push_back(made);
    }
    return values;
  }

  bool join(NodeId first, NodeId second) {
    const bool waits = can_wait(first, second);
    if (!waits && !can_rise(first, second)) return false;
    BoundProgram producer = bound_program(node(first));
    const auto gone = unneeded(producer, second);
    auto both = join_programs(graph_, std::move(producer), bound_program(node(second)), gone);
    if (!both) return false;
    const NodeId place = waits ? second : first;
    graph_.nodes[Graph::index(place)] = node_of(std::move(*both));
    graph_.nodes.erase(graph_.nodes.begin() + (waits ? first : second));
    return true;
  }

  Graph& graph_;
  Uses uses_;
};

}  // namespace

void fuse(Graph& graph) {
  while (Fuser(graph).fuse_one()) {
  }
}

}  // namespace muster::compiler
