#pragma once

#include "muster/graph/freeze.h"

namespace muster::graph {

/// What the tables of a graph hold once its initial operation has run, by the names of their nodes:
/// those that are filled from constants, or line by line from a file of `assets_dir`, where that
/// is not empty. Others are left out.
std::map<std::string, LookupTable, std::less<>> lookup_tables(const MetaGraph& meta,
                                                              const Path& assets_dir);

}  // namespace muster::graph
