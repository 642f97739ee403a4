#pragma once

#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster {

/// FOLDER/NAME for a name that comes from outside: a store's key below a prefix, a file that names
/// others. The name has parts between '/'; a backslash is a letter like any other, as the kernel
/// takes it. Throws InvalidArgument, saying why, for a name that leads elsewhere or that no file
/// can have: one that is absolute, has a part that is empty, "." or "..", holds a NUL, or is longer
/// than 4,096 bytes.
Path path_below(const Path& folder, std::string_view name);

/// Flaw of a name for path_below(): "it has the part '..'". Empty where a file below a folder may
/// have it.
std::string flaw_of_name_below(std::string_view name);

}  // namespace muster
