#pragma once

#include <string_view>

#include "muster/saved_model/graph/saved_model.h"

namespace muster::serving {

/// A whole input tensor out of JSON: nested lists of numbers, true and false, strings and {"b64":
/// "..."}. NaN and Infinity may stand bare. Throws InvalidArgument for text that is no JSON and for
/// values that are not of the input's type and shape.
graph::TensorValue tensor_from_json(std::string_view text, const graph::TensorInfo& info);

}  // namespace muster::serving
