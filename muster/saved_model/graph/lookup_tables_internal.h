#pragma once

#include "muster/saved_model/graph/freeze.h"

namespace muster::graph {

/// Entries of the graph's tables once its initial operation has run, by the names of their nodes:
/// tables that are filled from constants, or line by line from a file of `assets_dir`, where that
/// is not empty. Others are skipped.
std::map<std::string, LookupTable, std::less<>> lookup_tables(const MetaGraph& meta,
                                                              const Path& assets_dir);

/// Comparing with each word takes time; larger tables are not for it.
inline constexpr std::int64_t kMostComparedWords = 10'000;

/// Puts comparisons with the words of a table instead of the nodes that look words up in it;
/// the last of each has the name of what it stands for.
void compare_words(GraphDef& graph, const std::map<std::string, LookupTable, std::less<>>& tables);

}  // namespace muster::graph
