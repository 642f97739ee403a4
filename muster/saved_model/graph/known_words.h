#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/saved_model/graph/saved_model.h"

namespace muster::graph {

/// The words that a model looks up for each input of a signature, in the order of its tables: from
/// constants of the graph, or from files in `assets_dir` where that is not empty. Inputs that are
/// parsed, such as rows of CSV, have none, nor have those that are only hashed. At most `most`
/// words per input.
std::map<std::string, std::vector<std::string>> known_words(const MetaGraph& meta,
                                                            const SignatureDef& signature,
                                                            const Path& assets_dir,
                                                            std::size_t most = 1000);

}  // namespace muster::graph
