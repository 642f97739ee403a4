#include "muster/train/compiler/program_join.h"

#include <algorithm>
#include <utility>

#include "muster/train/compiler/fused_kernel.h"
#include "muster/train/compiler/program_builder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

constexpr std::size_t kMostOperands = 24;
constexpr std::size_t kMostInstructions = 200;

int add_input(BoundProgram& to, ValueId value, const Operand& operand) {
  for (std::size_t i = 0; i < to.inputs.size(); ++i) {
    if (to.inputs[i] == value && to.program.inputs[i] == operand) return static_cast<int>(i);
  }
  to.inputs.push_back(value);
  to.program.inputs.push_back(operand);
  return static_cast<int>(to.inputs.size()) - 1;
}

/// Brings instructions of one program after those of another.
class Appender {
 public:
  explicit Appender(BoundProgram& to) : to_(to) {}

  /// `known` are loads of `from`, by its inputs, that are values of the other already.
  void append(const BoundProgram& from, const std::vector<int>& known) {
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

  int add(const BoundProgram& from, Instruction one, const std::vector<int>& moved) {
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

  void add(const BoundProgram& from, const Program::Store& store, const std::vector<int>& moved) {
    const auto old = static_cast<std::size_t>(store.place);
    Program::Store now{.value = at(moved, store.value), .into_input = store.into_input};
    if (store.into_input) {
      now.place = add_input(to_, from.inputs[old], from.program.inputs[old]);
      // An earlier store to the same place is written over.
      std::erase_if(to_.program.stores, [&](const Program::Store& before) {
        return before.into_input && before.place == now.place;
      });
    } else {
      now.place = static_cast<int>(to_.outputs.size());
      to_.outputs.push_back(from.outputs[old]);
      to_.program.outputs.push_back(from.program.outputs[old]);
    }
    to_.program.stores.push_back(now);
  }

  BoundProgram& to_;
};

bool kinds_join(Program::Kind producer, Program::Kind consumer) {
  using Kind = Program::Kind;
  if (producer == Kind::kElements) return consumer != Kind::kColumns;
  if (producer == Kind::kRows) return consumer == Kind::kElements || consumer == Kind::kColumnSums;
  return producer == Kind::kColumns && consumer == Kind::kElements;
}

// Both in sizes that fit both.
bool align(BoundProgram& producer, BoundProgram& consumer) {
  if (producer.program.kind == Program::Kind::kRows &&
      consumer.program.kind == Program::Kind::kColumnSums) {
    return producer.program.sizes == consumer.program.sizes &&
           (producer.program.sums.empty() || producer.program.blocks == consumer.program.blocks);
  }
  if (has_rows_and_columns(consumer.program.kind)) {
    return refine(producer.program, consumer.program.sizes);
  }
  if (producer.program.kind != Program::Kind::kElements) {
    return refine(consumer.program, producer.program.sizes);
  }
  const auto sizes = common_sizes(producer.program.sizes, consumer.program.sizes);
  return sizes && refine(producer.program, *sizes) && refine(consumer.program, *sizes);
}

/// A place that a program reads or writes.
struct Place {
  ValueId value;
  const Operand& operand;
};

Place place_of(const BoundProgram& of, const Program::Store& store) {
  const auto place = static_cast<std::size_t>(store.place);
  return store.into_input ? Place{of.inputs[place], of.program.inputs[place]}
                          : Place{of.outputs[place], of.program.outputs[place]};
}

// Whether both go through the same elements in the order of the loop.
bool are_same_elements(const Graph& graph, const Program& program, const Place& one,
                       const Place& other) {
  return one.operand.type == other.operand.type && one.operand.strides == other.operand.strides &&
         is_linear(program, one.operand) &&
         graph.storage_of(one.value) == graph.storage_of(other.value) &&
         graph.geometry(one.value).offset == graph.geometry(other.value).offset;
}

// By inputs of the consumer, the value that the producer has of it. Nothing where the consumer
// reads, or changes, what the producer makes in any other way.
std::optional<std::vector<int>> known_loads(const Graph& graph, const BoundProgram& producer,
                                            const BoundProgram& consumer) {
  std::vector<int> known(consumer.inputs.size(), -1);
  for (std::size_t i = 0; i < consumer.inputs.size(); ++i) {
    const Place read{consumer.inputs[i], consumer.program.inputs[i]};
    for (const Program::Store& store : producer.program.stores) {
      const Place made = place_of(producer, store);
      if (!may_share_memory(graph, made.value, read.value)) continue;
      if (!are_same_elements(graph, producer.program, made, read)) return std::nullopt;
      known[i] = store.value;
    }
  }
  return known;
}

// Whether values that the consumer changes are used by the producer in the same element only.
bool are_apart(const Graph& graph, const BoundProgram& producer, const BoundProgram& consumer) {
  return std::ranges::all_of(consumer.program.stores, [&](const Program::Store& store) {
    const Place written = place_of(consumer, store);
    for (std::size_t i = 0; i < producer.inputs.size(); ++i) {
      const Place read{producer.inputs[i], producer.program.inputs[i]};
      if (may_share_memory(graph, read.value, written.value) &&
          !are_same_elements(graph, producer.program, read, written)) {
        return false;
      }
    }
    return true;
  });
}

/// The outputs of a program that take sums.
struct Partials {
  std::vector<ValueId> values{};
  std::vector<Operand> operands{};
  std::vector<std::int64_t> sums{};
};

Partials partials_of(const BoundProgram& of) {
  const auto count = static_cast<std::ptrdiff_t>(of.program.partials.size());
  return {{of.outputs.end() - count, of.outputs.end()},
          {of.program.outputs.end() - count, of.program.outputs.end()},
          of.program.partials};
}

Partials take_partials(BoundProgram& from) {
  Partials partials = partials_of(from);
  from.outputs.resize(from.outputs.size() - partials.values.size());
  from.program.outputs.resize(from.outputs.size());
  from.program.partials.clear();
  return partials;
}

// Sums stay behind all other outputs.
BoundProgram joined(BoundProgram producer, const BoundProgram& consumer,
                    const std::vector<int>& known) {
  BoundProgram both = std::move(producer);
  const Partials first = take_partials(both);
  Appender(both).append(consumer, known);
  both.operations += ", " + consumer.operations;
  const bool keeps_rows = both.program.kind == Program::Kind::kRows;
  if (has_rows_and_columns(consumer.program.kind) && !keeps_rows) {
    both.program.kind = consumer.program.kind;
  }
  if (!consumer.program.sums.empty()) both.program.blocks = consumer.program.blocks;
  for (const Partials& partials : {first, partials_of(consumer)}) {
    const auto add = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    add(both.outputs, partials.values);
    add(both.program.outputs, partials.operands);
    add(both.program.partials, partials.sums);
  }
  collapse(both.program);
  return both;
}

}  // namespace

BoundProgram bound_program(const Node& node) {
  const FusedKernel& kernel = *fused_kernel(node);
  return {kernel.program(), kernel.operations(), values_read(node), values_made(node), node.writes};
}

Node node_of(BoundProgram program) {
  return program_node(std::move(program.program), std::move(program.operations), program.inputs,
                      program.outputs, program.writes);
}

void drop_outputs(BoundProgram& of, const std::vector<ValueId>& unneeded) {
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

std::optional<BoundProgram> join_programs(const Graph& graph, BoundProgram producer,
                                          BoundProgram consumer,
                                          const std::vector<ValueId>& unneeded) {
  if (!kinds_join(producer.program.kind, consumer.program.kind) ||
      producer.program.elements() != consumer.program.elements() || !align(producer, consumer)) {
    return std::nullopt;
  }
  const auto known = known_loads(graph, producer, consumer);
  if (!known || !are_apart(graph, producer, consumer) ||
      producer.inputs.size() + consumer.inputs.size() + producer.outputs.size() +
              consumer.outputs.size() >
          kMostOperands ||
      producer.program.code.size() + consumer.program.code.size() > kMostInstructions) {
    return std::nullopt;
  }
  drop_outputs(producer, unneeded);
  return joined(std::move(producer), consumer, *known);
}

}  // namespace muster::compiler
