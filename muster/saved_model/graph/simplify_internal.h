#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/saved_model/graph/graph_def.h"

namespace muster::graph {

/// Brings a graph of constants to the forms that engines read which compute nothing in advance:
/// arithmetic on float constants is done (a batch norm over rows leaves a product and a sum), and a
/// transpose that only moves axes of size 1 of what a reshape gives is part of the reshape. Nodes
/// must come after their inputs. Results keep their nodes' names; constants and reshapes that
/// nothing reads any more are dropped. `kept` are nodes that must stay what they are.
void simplify(GraphDef& graph, const std::vector<std::string>& kept);

/// For each Placeholder whose one reader reshapes it to constant sizes, all but the first of them
/// known: gives it that shape and takes the reshape away. Returns the new shapes by node.
std::map<std::string, Shape> absorb_reshapes(GraphDef& graph, const std::vector<std::string>& kept);

/// Makes each Placeholder float that nothing reads but casts to float, beside its shape, and takes
/// the casts away. Returns their names.
std::set<std::string> absorb_casts(GraphDef& graph, const std::vector<std::string>& kept);

}  // namespace muster::graph
