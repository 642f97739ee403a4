#pragma once

#include "muster/export/translate.h"
#include "muster/saved_model/graph/saved_model.h"

namespace muster::exporting {

/// Adds the nodes that save and restore the variables as TensorFlow's Saver does, and lists the
/// variables in the collections where its loaders look for them. Without variables nothing is
/// added.
void add_saver(const std::vector<GraphVariable>& variables, graph::MetaGraph& meta);

/// Lets the saver restore the trainable variables from their moving averages, as checkpoints name
/// those.
void restore_averages(const std::vector<GraphVariable>& variables, graph::MetaGraph& meta);

}  // namespace muster::exporting
