#pragma once

#include "muster/saved_model/graph/freeze.h"

namespace muster::graph {

/// Whether the node holds a variable.
bool is_variable(const NodeDef& node);

/// Operations of feature columns that stay inside the graph.
enum class ColumnsInside { kNone, kLookups, kAll };

/// The graph and signature without strings: see FreezeOptions::numeric, lookups and columns.
/// `tables` are those whose entries are known. What the outputs that are left do not need may still
/// be in it.
FrozenGraph numeric_part(const GraphDef& graph, const SignatureDef& signature,
                         const std::map<std::string, LookupTable, std::less<>>& tables,
                         ColumnsInside inside);

}  // namespace muster::graph
