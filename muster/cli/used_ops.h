#pragma once

#include <set>
#include <string>
#include <vector>

#include "muster/saved_model/graph/graph_def.h"

namespace muster::cli {

/// The types of operations that a graph can run, also inside of the functions that it calls; the
/// functions themselves are none.
std::set<std::string> used_ops(const graph::GraphDef& graph);

/// As Python prints a set of strings, in order: {'Add', 'MatMul'}.
std::string python_set(const std::set<std::string>& words);
/// As Python prints a list of strings: ['serve'].
std::string python_list(const std::vector<std::string>& words);

}  // namespace muster::cli
