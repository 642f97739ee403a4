#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/saved_model/graph/saved_model.h"

namespace muster::serving {

/// Default values of inputs that one of this many instances does not have, or has null for, by name
/// and as instances say it: the defaults of the signature that are one row. Throws
/// InvalidArgument where one takes too much memory for this many rows.
std::map<std::string, nlohmann::json, std::less<>> row_defaults(
    const graph::SignatureDef& signature, std::size_t instances);

}  // namespace muster::serving
