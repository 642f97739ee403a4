#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "muster/base/error.h"

namespace muster::serving {

/// Throws Internal for bytes that are no such message, as gRPC's own servers answer.
template <typename Message>
Message message_of(std::string_view bytes) {
  Message message;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    const std::string name = message.GetTypeName();
    throw Internal("the request cannot be read as a {}", name.substr(name.rfind('.') + 1));
  }
  return message;
}

}  // namespace muster::serving
