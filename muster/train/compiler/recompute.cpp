#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "muster/train/compiler/fused_kernel.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/program_join.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

/// Instructions that take less time than a read of the element they make.
constexpr std::size_t kMostRecomputed = 32;

// Instructions that the value needs, itself included.
std::vector<bool> needed_by(const std::vector<Instruction>& code, int value) {
  std::vector<bool> needed(code.size(), false);
  needed[static_cast<std::size_t>(value)] = true;
  for (std::size_t i = code.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const int operand : {code[i].a, code[i].b, code[i].c}) {
      if (operand >= 0) needed[static_cast<std::size_t>(operand)] = true;
    }
  }
  return needed;
}

/// The part of a program that makes one of its outputs, element by element. Nothing where that
/// takes values of whole rows or columns, or too much work.
std::optional<BoundProgram> slice_of(const BoundProgram& from, std::size_t output) {
  const auto store = std::ranges::find_if(from.program.stores, [&](const Program::Store& one) {
    return !one.into_input && one.place == static_cast<int>(output);
  });
  if (store == from.program.stores.end()) return std::nullopt;
  const auto needed = needed_by(from.program.code, store->value);
  BoundProgram slice{.operations = from.operations};
  slice.program.sizes = from.program.sizes;
  std::vector<int> moved(needed.size(), -1);
  const auto at = [&](int old) { return old < 0 ? -1 : moved[static_cast<std::size_t>(old)]; };
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    Instruction one = from.program.code[i];
    if (is_of_row(one) || one.op == ScalarOp::kSum) return std::nullopt;
    one.a = at(one.a);
    one.b = at(one.b);
    one.c = at(one.c);
    if (one.op == ScalarOp::kLoad) {
      const auto input = static_cast<std::size_t>(one.place);
      one.place = static_cast<int>(slice.inputs.size());
      slice.inputs.push_back(from.inputs[input]);
      slice.program.inputs.push_back(from.program.inputs[input]);
    }
    moved[i] = static_cast<int>(slice.program.code.size());
    slice.program.code.push_back(one);
  }
  if (slice.program.code.size() > kMostRecomputed) return std::nullopt;
  slice.outputs = {from.outputs[output]};
  slice.program.outputs = {from.program.outputs[output]};
  slice.program.stores = {{0, at(store->value), false}};
  return slice;
}

/// Bytes that a program reads of tensors as large as its loop.
std::int64_t bytes_read(const BoundProgram& of) {
  std::set<ValueId> seen;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const Operand& operand = of.program.inputs[i];
    const bool is_full =
        operand.strides.size() == of.program.sizes.size() &&
        std::ranges::none_of(operand.strides, [](auto stride) { return stride == 0; });
    if (is_full && seen.insert(of.inputs[i]).second) {
      bytes += of.program.elements() * static_cast<std::int64_t>(c10::elementSize(operand.type));
    }
  }
  return bytes;
}

class Recomputation {
 public:
  explicit Recomputation(Graph& graph) : graph_(graph), uses_(graph) {}

  /// Has readers of one value make it again; false where none would gain by it.
  bool recompute_one() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto maker = static_cast<NodeId>(i);
      if (fused_kernel(node(maker)) == nullptr) continue;
      const BoundProgram program = bound_program(node(maker));
      for (std::size_t output = 0; output < program.outputs.size(); ++output) {
        if (recompute(maker, program, output)) return true;
      }
    }
    return false;
  }

 private:
  /// A reader with the value made in it.
  struct Reader {
    NodeId id = -1;
    BoundProgram joined{};
    std::int64_t saved = 0;
  };

  const Node& node(NodeId id) const { return graph_.nodes[Graph::index(id)]; }

  bool recompute(NodeId maker, const BoundProgram& program, std::size_t output) {
    const ValueId value = program.outputs[output];
    if (!uses_.is_pure_value(value)) return false;
    const auto slice = slice_of(program, output);
    if (!slice) return false;
    std::vector<Reader> readers;
    std::int64_t saved = 0;
    const Uses::OfStorage& of = uses_.of_value(value);
    for (const NodeId id : of.readers) {
      if (auto reader = reader_of(maker, *slice, id)) {
        saved += reader->saved;
        readers.push_back(std::move(*reader));
      }
    }
    const bool all = !of.is_output && !readers.empty() && readers.size() == of.readers.size();
    const auto bytes = static_cast<std::int64_t>(graph_.geometry(value).bytes());
    // A value without readers is not written.
    if (all && saved + bytes > 0) {
      replace(readers);
      drop_output(maker, output);
      return true;
    }
    std::erase_if(readers, [](const Reader& reader) { return reader.saved <= 0; });
    replace(readers);
    return !readers.empty();
  }

  std::optional<Reader> reader_of(NodeId maker, const BoundProgram& slice, NodeId id) const {
    if (fused_kernel(node(id)) == nullptr) return std::nullopt;
    for (const ValueId input : slice.inputs) {
      for (const NodeId writer : uses_.of_value(input).writers) {
        if (writer >= maker && writer < id) return std::nullopt;
      }
    }
    BoundProgram reader = bound_program(node(id));
    const std::int64_t before = bytes_read(reader);
    auto joined = join_programs(graph_, slice, std::move(reader), slice.outputs);
    if (!joined) return std::nullopt;
    const std::int64_t saved = before - bytes_read(*joined);
    return Reader{id, std::move(*joined), saved};
  }

  void replace(std::vector<Reader>& readers) {
    for (Reader& reader : readers) {
      graph_.nodes[Graph::index(reader.id)] = node_of(std::move(reader.joined));
    }
  }

  void drop_output(NodeId maker, std::size_t output) {
    BoundProgram program = bound_program(node(maker));
    drop_outputs(program, {program.outputs[output]});
    const bool is_left = !program.outputs.empty() || !program.program.stores.empty();
    if (is_left) {
      graph_.nodes[Graph::index(maker)] = node_of(std::move(program));
    } else {
      graph_.nodes.erase(graph_.nodes.begin() + maker);
    }
  }

  Graph& graph_;
  Uses uses_;
};

}  // namespace

void recompute(Graph& graph) {
  while (Recomputation(graph).recompute_one()) {
  }
}

}  // namespace muster::compiler
