#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/train/compiler/graph.h"
#include "muster/train/compiler/program.h"

namespace muster::compiler {

/// A node's program, with its values by operand.
struct BoundProgram {
  Program program{};
  std::string operations{};
  std::vector<ValueId> inputs{};
  std::vector<ValueId> outputs{};
  std::vector<ValueId> writes{};
};

/// That of a node whose kernel is a FusedKernel.
BoundProgram bound_program(const Node& node);
Node node_of(BoundProgram program);

/// Without these outputs and their stores.
void drop_outputs(BoundProgram& of, const std::vector<ValueId>& unneeded);

/// The consumer with the producer in front of it, which leaves its values in registers: those that
/// the consumer reads, and, except for `unneeded` outputs, in memory. Nothing where the two cannot
/// be one loop.
std::optional<BoundProgram> join_programs(const Graph& graph, BoundProgram producer,
                                          BoundProgram consumer,
                                          const std::vector<ValueId>& unneeded);

}  // namespace muster::compiler
