#pragma once

#include <cstring>

namespace muster::internal {

/// Whether the words of a command line ask for help or the version: then the program ends before it
/// computes. `--version` is a flag with a value in some commands, so that it counts at the end
/// alone. Asks the system for nothing: early_start.cpp calls it before libraries are ready.
inline bool asks_for_help(const char* const* arguments) {
  for (; *arguments != nullptr && std::strcmp(*arguments, "--") != 0; ++arguments) {
    if (std::strcmp(*arguments, "--help") == 0 || std::strcmp(*arguments, "-h") == 0) return true;
    if (std::strcmp(*arguments, "--version") == 0 && arguments[1] == nullptr) return true;
  }
  return false;
}

}  // namespace muster::internal
