#pragma once

#include "muster/base/file_system.h"

namespace muster::jobs {

/// Copies a program to a new file and returns when the copy is on the disk; where the file system
/// can share blocks between files, none are copied. Throws, naming the program, for one of more
/// than 4 GiB and for one that is being written meanwhile.
void copy_program(const Path& from, const Path& to);

}  // namespace muster::jobs
