#pragma once

#include <cstdint>
#include <functional>

#include "muster/base/file_system.h"

namespace muster {

/// Copies a file to where it is whole or absent, from any file system to any other. The target's
/// folder must be there, where there are folders. `copied` is told of every piece, in bytes. Throws
/// DataLoss when fewer bytes come than the file has.
void copy_whole_file(const Path& from, const Path& to,
                     const std::function<void(std::uint64_t bytes)>& copied = {});

}  // namespace muster
