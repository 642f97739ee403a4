#pragma once

#include "muster/graph/freeze.h"

namespace muster::graph {

/// Whether the node holds a variable.
bool is_variable(const NodeDef& node);

/// The graph and signature without strings: see FreezeOptions::numeric. With `tables`, those whose
/// entries are known, see FreezeOptions::lookups. What the outputs that are left do not need may
/// still be in it.
FrozenGraph numeric_part(const GraphDef& graph, const SignatureDef& signature,
                         const std::map<std::string, LookupTable, std::less<>>* tables);

}  // namespace muster::graph
