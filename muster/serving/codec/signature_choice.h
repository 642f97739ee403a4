#pragma once

#include <string>
#include <string_view>

#include "muster/saved_model/graph/saved_model.h"

namespace muster::serving {

/// The signature that answers: the one that is named, or, without a name, the only one there is,
/// or else serving_default. Those that belong to TensorFlow itself (__saved_model_init_op) do not
/// count. Throws NotFound in the words of Cloud ML Engine, and says which there are.
std::string choose_signature(const graph::MetaGraph& meta, std::string_view name);

}  // namespace muster::serving
