#pragma once

#include "muster/serving/protocols/rest_paths_internal.h"

namespace muster::serving {

/// Answers the Open Inference Protocol over REST: /v2 and the paths below it.
RestResult answer_open_inference(RestContext& context);

}  // namespace muster::serving
