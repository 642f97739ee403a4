#pragma once

#include "muster/saved_model/graph/saved_model.h"

namespace muster::graph {

/// The graph with the bodies of functions instead of their calls (PartitionedCall,
/// StatefulPartitionedCall, and nodes whose operation is a function), inside functions too: what
/// models of TensorFlow 2 need before anything can be said of their variables and operations. A
/// node NAME of the body that CALL runs becomes CALL/NAME. CALL itself becomes a NoOp that runs
/// after them, and signatures, saver and assets name what has taken the place of its outputs.
/// Functions are kept where nodes such as If and While still name one.
///
/// The graph must have passed check_graph. Throws InvalidArgument for a call that does not fit its
/// function, Unimplemented for an argument that is a list of values, and ResourceExhausted beyond
/// the limit of nodes.
MetaGraph inline_functions(MetaGraph meta, const GraphLimits& limits = {});

}  // namespace muster::graph
