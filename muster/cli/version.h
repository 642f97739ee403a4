#pragma once

#include <string>

namespace muster::cli {

/// "muster 1.0.0-rc1", which needs no libtorch.
std::string version_line();

}  // namespace muster::cli
