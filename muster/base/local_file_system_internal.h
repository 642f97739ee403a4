#pragma once

#include <memory>

#include "muster/base/file_system.h"

namespace muster {

/// Files of this machine, through POSIX calls.
std::shared_ptr<FileSystem> make_local_file_system();

}  // namespace muster
