#pragma once

#include "muster/graph/freeze.h"

namespace muster::graph {

/// Whether the node holds a variable.
bool is_variable(const NodeDef& node);

/// The graph and signature without strings: see FreezeOptions::numeric. What the outputs that are
/// left do not need may still be in it.
FrozenGraph numeric_part(const GraphDef& graph, const SignatureDef& signature);

}  // namespace muster::graph
