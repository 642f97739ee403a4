#pragma once

#include <string_view>

namespace muster {

/// Whether a name of a variable is the pattern, in which '*' stands for any letters, '/' among
/// them: "dnn/*/bias".
bool matches_name(std::string_view pattern, std::string_view name);

}  // namespace muster
