#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/saved_model/graph/saved_model.h"

namespace muster::serving {

/// What stands for an input that an instance does not have, or has null for, by name and as
/// instances say it: the defaults of the signature that are one row of many, such as exports of
/// ours have for features that training has a default for. Others stand for whole inputs.
std::map<std::string, nlohmann::json, std::less<>> row_defaults(
    const graph::SignatureDef& signature);

}  // namespace muster::serving
