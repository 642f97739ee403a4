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

constexpr std::size_t kMostOperands = 24;
constexpr std::size_t kMostInstructions = 200;

/// A node's program, with its values by operand.
struct Bound {
  Program program{};
  std::string operations{};
  std::vector<ValueId> inputs{};
  std::vector<ValueId> outputs{};
  std::vector<ValueId> writes{};
};

Bound bound(const Node& node) {
  const FusedKernel& kernel = *fused_kernel(node);
  return {kernel.program(), kernel.operations(), values_read(node), values_made(node), node.writes};
}

int add_input(Bound& to, ValueId value, const Operand& operand) {
  for (std::size_t i = 0; i < to.inputs.size(); ++i) {
    if (to.inputs[i] == value && to.program.inputs[i] == operand) return static_cast<int>(i);
  }
  to.inputs.push_back(value);
  to.program.inputs.push_back(operand);
  return static_cast<int>(to.inputs.size()) - 1;
}

/// Brings instructions of one program behind those of another.
class Appender {
 public:
  explicit Appender(Bound& to) : to_(to) {}

  /// `known` are loads of `from`, by its inputs, that are values of the other already.
  void append(const Bound& from, const std::vector<int>& known) {
    std::vector<int> moved;
    for (const Instruction& one : from.program.code) {
      const bool is_known = one.op == ScalarOp::kLoad && known[place(one)] >= 0;
      moved.push_back(is_known ? known[place(one)] : add(from, one, moved));
    }
    for (const Program::Store& store : from.program.stores) add(from, store, moved);
    for (const int sum : from.program.sums) to_.program.sums.push_back(at(moved, sum));
    to_.writes.insert(to_.writes.end(), from.writes.begin(), from.writes.end());
  }

 private:
  static std::size_t place(const Instruction& one) { return static_cast<std::size_t>(one.place); }
  static int at(const std::vector<int>& moved, int old) {
    return old < 0 ? -1 : moved[static_cast<std::size_t>(old)];
  }

  int add(const Bound& from, Instruction one, const std::vector<int>& moved) {
    one.a = at(moved, one.a);
    one.b = at(moved, one.b);
    one.c = at(moved, one.c);
    if (one.op == ScalarOp::kLoad) {
      one.place = add_input(to_, from.inputs[place(one)], from.program.inputs[place(one)]);
    }
    const auto same = std::ranges::find(to_.program.code, one);
    if (same != to_.program.code.end()) {
      return static_cast<int>(same - to_.program.code.begin());
    }
    to_.program.code.push_back(one);
    return static_cast<int>(to_.program.code.size()) - 1;
  }

  void add(const Bound& from, const Program::Store& store, const std::vector<int>& moved) {
    const auto old = static_cast<std::size_t>(store.place);
    Program::Store now{.value = at(moved, store.value), .into_input = store.into_input};
    if (store.into_input) {
      now.place = add_input(to_, from.inputs[old], from.program.inputs[old]);
    } else {
      now.place = static_cast<int>(to_.outputs.size());
      to_.outputs.push_back(from.outputs[old]);
      to_.program.outputs.push_back(from.program.outputs[old]);
    }
    to_.program.stores.push_back(now);
  }

  Bound& to_;
};

// Without outputs that are not needed, and what only they need.
void remove_unused(Bound& of, const std::vector<ValueId>& unneeded) {
  std::erase_if(of.program.stores, [&](const Program::Store& store) {
    return !store.into_input &&
           std::ranges::count(unneeded, of.outputs[static_cast<std::size_t>(store.place)]) > 0;
  });
  std::vector<ValueId> outputs;
  std::vector<Operand> operands;
  std::vector<int> moved(of.outputs.size(), -1);
  for (std::size_t i = 0; i < of.outputs.size(); ++i) {
    if (std::ranges::count(unneeded, of.outputs[i]) > 0) continue;
    moved[i] = static_cast<int>(outputs.size());
    outputs.push_back(of.outputs[i]);
    operands.push_back(of.program.outputs[i]);
  }
  for (Program::Store& store : of.program.stores) {
    if (!store.into_input) store.place = moved[static_cast<std::size_t>(store.place)];
  }
  of.outputs = std::move(outputs);
  of.program.outputs = std::move(operands);
}

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

  // The node whose program makes this value, if its work can be done where the consumer's is.
  NodeId producer_of(ValueId value, NodeId consumer) const {
    if (!uses_.is_pure_value(value)) return -1;
    const NodeId producer = uses_.of_value(value).maker;
    if (producer < 0 || producer >= consumer || fused_kernel(node(producer)) == nullptr) return -1;
    return can_move(producer, consumer) ? producer : -1;
  }

  // Nothing in between reads what it makes or changes, or changes what it reads.
  bool can_move(NodeId producer, NodeId consumer) const {
    const auto is_first_reader = [&](ValueId made) {
      const Uses::OfStorage& of = uses_.of_value(made);
      const bool changed = std::ranges::any_of(of.writers, [&](NodeId w) { return w < consumer; });
      return !changed && (of.readers.empty() || of.readers.front() >= consumer);
    };
    const auto is_unchanged = [&](ValueId read) {
      return !uses_.changes_between(graph_.storage_of(read), producer, consumer);
    };
    const auto is_not_read = [&](ValueId written) {
      return std::ranges::none_of(uses_.of_value(written).readers, [&](NodeId reader) {
        return reader > producer && reader < consumer;
      });
    };
    return std::ranges::all_of(values_made(node(producer)), is_first_reader) &&
           std::ranges::all_of(values_read(node(producer)), is_unchanged) &&
           std::ranges::all_of(node(producer).writes, is_not_read);
  }

  static bool kinds_join(Program::Kind producer, Program::Kind consumer) {
    using Kind = Program::Kind;
    if (producer == Kind::kElements) return consumer != Kind::kColumns;
    return producer == Kind::kColumns && consumer == Kind::kElements;
  }

  // Both in sizes that fit both.
  static bool align(Bound& producer, Bound& consumer) {
    const bool fixed = consumer.program.kind == Program::Kind::kColumnSums ||
                       producer.program.kind == Program::Kind::kColumns;
    if (consumer.program.kind == Program::Kind::kColumnSums) {
      return refine(producer.program, consumer.program.sizes);
    }
    if (fixed) return refine(consumer.program, producer.program.sizes);
    const auto sizes = common_sizes(producer.program.sizes, consumer.program.sizes);
    return sizes && refine(producer.program, *sizes) && refine(consumer.program, *sizes);
  }

  // By inputs of the consumer, the value that the producer has of it. Nothing where the consumer
  // reads, or changes, what the producer makes in any other way.
  std::optional<std::vector<int>> known_loads(const Bound& producer, const Bound& consumer) const {
    std::vector<int> known(consumer.inputs.size(), -1);
    for (std::size_t i = 0; i < consumer.inputs.size(); ++i) {
      for (const Program::Store& store : producer.program.stores) {
        const auto place = static_cast<std::size_t>(store.place);
        const ValueId made = store.into_input ? producer.inputs[place] : producer.outputs[place];
        if (graph_.storage_of(made) != graph_.storage_of(consumer.inputs[i])) continue;
        const Operand& operand =
            store.into_input ? producer.program.inputs[place] : producer.program.outputs[place];
        const bool same =
            !store.into_input && operand.strides == consumer.program.inputs[i].strides &&
            is_linear(producer.program, operand) &&
            graph_.geometry(made).offset == graph_.geometry(consumer.inputs[i]).offset;
        if (!same) return std::nullopt;
        known[i] = store.value;
      }
    }
    return known;
  }

  // What the consumer changes, the producer may not read or change elsewhere in the same loop.
  bool are_apart(const Bound& producer, const Bound& consumer) const {
    const auto touches = [&](const std::vector<ValueId>& values, ValueId written) {
      return std::ranges::any_of(values, [&](ValueId value) {
        return graph_.storage_of(value) == graph_.storage_of(written) &&
               graph_.storage(graph_.storage_of(value)).kind != Storage::Kind::kExternal;
      });
    };
    const auto same_external = [&](const std::vector<ValueId>& values, ValueId written) {
      return std::ranges::any_of(values, [&](ValueId value) {
        return graph_.storage_of(value) == graph_.storage_of(written) && overlaps(value, written);
      });
    };
    return std::ranges::none_of(consumer.writes,
                                [&](ValueId written) {
                                  return touches(producer.inputs, written) ||
                                         same_external(producer.inputs, written);
                                }) &&
           std::ranges::none_of(producer.writes, [&](ValueId written) {
             return touches(consumer.inputs, written) || same_external(consumer.inputs, written);
           });
  }

  // By the ends of both.
  bool overlaps(ValueId one, ValueId other) const {
    const auto end = [](const Geometry& geometry) {
      std::int64_t last = geometry.offset;
      for (std::size_t d = 0; d < geometry.sizes.size(); ++d) {
        last += (geometry.sizes[d] - 1) * geometry.strides[d];
      }
      return last;
    };
    const Geometry& a = graph_.geometry(one);
    const Geometry& b = graph_.geometry(other);
    return a.offset <= end(b) && b.offset <= end(a);
  }

  std::vector<ValueId> unneeded(const Bound& producer, NodeId consumer) const {
    std::vector<ValueId> values;
    for (const ValueId made : producer.outputs) {
      if (uses_.is_read_only_by(graph_.storage_of(made), consumer)) values.push_back(made);
    }
    return values;
  }

  bool join(NodeId first, NodeId second) {
    Bound producer = bound(node(first));
    Bound consumer = bound(node(second));
    if (!kinds_join(producer.program.kind, consumer.program.kind) ||
        producer.program.elements() != consumer.program.elements() || !align(producer, consumer)) {
      return false;
    }
    const auto known = known_loads(producer, consumer);
    if (!known || !are_apart(producer, consumer) ||
        producer.inputs.size() + consumer.inputs.size() + producer.outputs.size() +
                consumer.outputs.size() >
            kMostOperands ||
        producer.program.code.size() + consumer.program.code.size() > kMostInstructions) {
      return false;
    }
    remove_unused(producer, unneeded(producer, second));
    replace(first, second, joined(std::move(producer), consumer, *known));
    return true;
  }

  static Bound joined(Bound producer, const Bound& consumer, const std::vector<int>& known) {
    Bound both = std::move(producer);
    const bool sums = consumer.program.kind == Program::Kind::kColumnSums;
    Appender(both).append(consumer, known);
    both.operations += ", " + consumer.operations;
    if (sums) {
      both.program.kind = Program::Kind::kColumnSums;
      both.program.blocks = consumer.program.blocks;
      both.program.sum_count = consumer.program.sum_count;
      both.outputs.push_back(consumer.outputs.back());
      both.program.outputs.push_back(consumer.program.outputs.back());
    }
    collapse(both.program);
    return both;
  }

  void replace(NodeId first, NodeId second, Bound both) {
    graph_.nodes[Graph::index(second)] =
        program_node(std::move(both.program), std::move(both.operations), both.inputs, both.outputs,
                     both.writes);
    graph_.nodes.erase(graph_.nodes.begin() + first);
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
