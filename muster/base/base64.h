#pragma once

#include <string>
#include <string_view>

namespace muster {

/// Bytes as text for JSON, in the standard alphabet with padding.
std::string base64_encode(std::string_view bytes);
/// Throws InvalidArgument, with the place, for text that cannot be parsed. Padding may be missing.
std::string base64_decode(std::string_view text);

}  // namespace muster
