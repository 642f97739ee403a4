#pragma once

#include "muster/saved_model/graph/graph_def.h"

/// The values that attributes have where a node says nothing, of the operations that exports are
/// made of, as TensorFlow 1.15 has them. Other operations pass as they are.
namespace muster::graph {

/// Takes out attributes that have their defaults: a TensorFlow that does not know an attribute can
/// read the graph as long as no node needs another value of it.
void strip_default_attrs(GraphDef& graph);

/// Spells the defaults out, for readers that know none. Attributes that are there stay.
void add_default_attrs(GraphDef& graph);

}  // namespace muster::graph
