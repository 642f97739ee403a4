#pragma once

#include "muster/serving/protocols/rest_paths_internal.h"

namespace muster::serving {

/// Answers TensorFlow Serving's REST API: /v1/models and the paths below it.
RestResult answer_tensorflow(RestContext& context);

}  // namespace muster::serving
