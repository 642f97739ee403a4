#include "muster/train/compiler/program_builder.h"

#include <algorithm>
#include <utility>

#include "muster/train/compiler/uses.h"

namespace muster::compiler {

bool is_aligned(const Geometry& geometry) {
  return geometry.offset * static_cast<std::int64_t>(c10::elementSize(geometry.type)) % 16 == 0;
}

bool is_for_programs(const Geometry& geometry) {
  const bool known = geometry.type == at::kFloat || geometry.type == at::kBFloat16 ||
                     geometry.type == at::kHalf || geometry.type == at::kBool;
  return known && geometry.elements() > 0;
}

std::vector<std::size_t> memory_order(const Geometry& geometry) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < geometry.sizes.size(); ++d) {
    if (geometry.sizes[d] != 1) order.push_back(d);
  }
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t d) { return geometry.strides[d]; });
  return order;
}

ProgramBuilder::ProgramBuilder(const Graph& graph, const Geometry& loop)
    : graph_(graph), loop_sizes_(loop.sizes), order_(memory_order(loop)) {
  for (const std::size_t d : order_) program_.sizes.push_back(loop.sizes[d]);
  if (program_.sizes.empty()) program_.sizes = {1};
}

ProgramBuilder::ProgramBuilder(const Graph& graph, Program::Kind kind,
                               std::vector<std::int64_t> sizes)
    : graph_(graph) {
  program_.kind = kind;
  program_.sizes = std::move(sizes);
}

std::vector<std::int64_t> ProgramBuilder::strides_of(const Geometry& geometry) const {
  if (order_.empty()) return std::vector<std::int64_t>(program_.sizes.size(), 0);
  std::vector<std::int64_t> strides;
  for (const std::size_t d : order_) {
    const std::size_t missing = loop_sizes_.size() - geometry.sizes.size();
    const bool broadcast = d < missing || geometry.sizes[d - missing] == 1;
    strides.push_back(broadcast ? 0 : geometry.strides[d - missing]);
  }
  return strides;
}

std::size_t ProgramBuilder::input(ValueId value, std::vector<std::int64_t> strides) {
  const Geometry& geometry = graph_.geometry(value);
  const Operand operand{geometry.type, std::move(strides), is_aligned(geometry)};
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] == value && program_.inputs[i] == operand) return i;
  }
  inputs_.push_back(value);
  program_.inputs.push_back(operand);
  return inputs_.size() - 1;
}

int ProgramBuilder::load(ValueId value) { return load(value, strides_of(graph_.geometry(value))); }

int ProgramBuilder::load(ValueId value, std::vector<std::int64_t> strides) {
  const auto place = static_cast<int>(input(value, std::move(strides)));
  program_.code.push_back({.op = ScalarOp::kLoad, .place = place});
  return static_cast<int>(program_.code.size()) - 1;
}

int ProgramBuilder::constant(double value) {
  program_.code.push_back({.op = ScalarOp::kConstant, .constant = static_cast<float>(value)});
  return static_cast<int>(program_.code.size()) - 1;
}

int ProgramBuilder::op(ScalarOp what, int a, int b, int c) {
  program_.code.push_back({.op = what, .a = a, .b = b, .c = c});
  return static_cast<int>(program_.code.size()) - 1;
}

int ProgramBuilder::sum(int number) {
  program_.code.push_back({.op = ScalarOp::kSum, .place = number});
  return static_cast<int>(program_.code.size()) - 1;
}

void ProgramBuilder::store(int value, ValueId result) {
  store(value, result, strides_of(graph_.geometry(result)));
}

void ProgramBuilder::store(int value, ValueId result, std::vector<std::int64_t> strides) {
  const Geometry& geometry = graph_.geometry(result);
  program_.outputs.push_back({geometry.type, std::move(strides), is_aligned(geometry)});
  program_.stores.push_back({static_cast<int>(results_.size()), value, false});
  results_.push_back(result);
}

void ProgramBuilder::store_into(int value, ValueId place) {
  store_into(value, place, strides_of(graph_.geometry(place)));
}

void ProgramBuilder::store_into(int value, ValueId place, std::vector<std::int64_t> strides) {
  const auto operand = static_cast<int>(input(place, std::move(strides)));
  program_.stores.push_back({operand, value, true});
  writes_.push_back(place);
}

void ProgramBuilder::add_up(std::vector<int> values, ValueId partials, std::int64_t blocks) {
  program_.partials = {static_cast<std::int64_t>(values.size())};
  program_.sums = std::move(values);
  program_.blocks = blocks;
  program_.outputs.push_back({at::kFloat, {}, true});
  results_.push_back(partials);
}

void ProgramBuilder::read_sums(ValueId partials, std::int64_t blocks, std::int64_t sums) {
  program_.inputs.insert(program_.inputs.begin(), Operand{at::kFloat, {}, true});
  inputs_.insert(inputs_.begin(), partials);
  program_.blocks = blocks;
  program_.sum_count = sums;
}

Node ProgramBuilder::take(std::string operations) {
  collapse(program_);
  return program_node(std::move(program_), std::move(operations), inputs_, results_, writes_);
}

Node program_node(Program program, std::string operations, const std::vector<ValueId>& inputs,
                  const std::vector<ValueId>& results, const std::vector<ValueId>& writes) {
  Node node;
  for (const ValueId value : inputs) node.arguments.push_back(tensor(value));
  for (std::size_t i = 0; i < results.size(); ++i) {
    node.results.push_back({.place = i, .value = results[i]});
  }
  node.writes = writes;
  node.kernel = std::make_shared<FusedKernel>(std::move(program), std::move(operations));
  return node;
}

}  // namespace muster::compiler
