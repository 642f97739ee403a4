#pragma once

#include <chrono>

#include "muster/base/file_system.h"

namespace muster {

/// How long a lock that another process holds is waited for: it is held for no longer than a small
/// file takes to be written.
inline constexpr std::chrono::seconds kLockPatience{60};

/// Takes a lock of an open file or folder: `operation` is LOCK_SH or LOCK_EX of flock(). `path` is
/// what errors and reports of a long wait name. False where the file system has no locks. Throws
/// DeadlineExceeded, saying what to do, when another process does not give it up in time.
bool lock_file(int descriptor, int operation, const Path& path,
               std::chrono::milliseconds patience = kLockPatience);

}  // namespace muster
