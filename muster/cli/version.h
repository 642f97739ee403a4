#pragma once

#include <string>

namespace muster::cli {

/// "muster 0.1.0", which needs no libtorch.
std::string version_line();

}  // namespace muster::cli
