#pragma once

#include <string>
#include <string_view>

#include "muster/serving/protocols/rest_paths_internal.h"

namespace muster::serving {

/// Answers calls that list and change models and their versions. `path` is what follows
/// "/v1/projects/PROJECT/models". Failures are answers.
HttpResponse answer_cloud_models(RestContext& context, const std::string& project,
                                 std::string_view path);

}  // namespace muster::serving
