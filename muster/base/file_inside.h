#pragma once

#include <cstdint>
#include <string>

#include "muster/base/file_system.h"

namespace muster {

/// All bytes of FOLDER/NAME, for folders that others have written: names that come out of files,
/// and files of unchecked kind. Throws InvalidArgument unless it is a regular file (a FIFO would
/// wait for ever) that is inside `folder` also when symbolic links are followed; `folder` itself
/// may be reached by one. Throws NotFound, and ResourceExhausted beyond `limit_bytes`. On file
/// systems other than the local one it is read_file() of path_below().
std::string read_file_inside(const Path& folder, const Path& name,
                             std::uint64_t limit_bytes = std::uint64_t{1} << 30);

/// The same of a file that is opened by its name afterwards, to be mapped.
void check_file_inside(const Path& folder, const Path& name);

}  // namespace muster
