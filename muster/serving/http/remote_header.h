#pragma once

#include <string_view>

namespace muster::serving {

/// A request with this header is not of this host, also where it comes from there: a front that
/// passes requests on says so of those that came from elsewhere. It takes permissions away, and
/// gives none.
inline constexpr std::string_view kRemoteHeader = "X-Muster-Remote";

}  // namespace muster::serving
