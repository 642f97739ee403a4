#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// The edge of a program, for main(): calls `body` and returns its status. An exception is logged
/// and becomes the exit status that describe() gives it: 1 failed, 2 misused, 75 worth another try,
/// 128 + n stopped by signal n after a last checkpoint.
int run_main(const std::function<int()>& body);

/// The files that a flag's patterns name, each pattern's sorted. Throws UsageError, naming the
/// flag, for one that matches none.
std::vector<Path> files_of(const std::vector<std::string>& patterns, const char* flag);

}  // namespace muster
