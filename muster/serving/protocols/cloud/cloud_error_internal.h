#pragma once

#include <string_view>

#include "muster/base/error.h"
#include "muster/serving/http/http_message.h"

namespace muster::serving {

/// An error in the platform's form, an object; errors of a prediction are texts.
HttpResponse cloud_error(ErrorCode code, std::string_view text);

}  // namespace muster::serving
