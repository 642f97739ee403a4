#pragma once

#include <string_view>

#include "muster/saved_model/graph/graph_def.h"

namespace muster::graph {

/// The outputs of an operation that has several, as "name" or "name*attr" with the attribute that
/// tells how many values it has; empty for others, whose one output has all values.
std::string_view several_outputs(std::string_view op);

/// The number that the value "node:output:index" of a function's body has among all values of the
/// node. Throws InvalidArgument for an output that the operation lacks.
int flat_output_index(const NodeDef& node, const InputRef& from);

}  // namespace muster::graph
