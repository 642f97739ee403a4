#pragma once

#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::cli {

/// The program beside this one that links libtorch. Throws Unimplemented, naming `command`, which
/// needs it, if it was not built.
Path torch_program(const char* command);

/// Turns this process into `muster-torch ARGUMENTS...`, the program beside this one that links
/// libtorch. Returns false, with nothing done, if it was not built.
bool exec_torch_program(const std::vector<std::string>& arguments);

/// The same with this process's own arguments, for a command that both programs know: this one its
/// flags, that one what it does. A first word `without` is one that only this program knows. Throws
/// Unimplemented, naming `command`, if it was not built.
[[noreturn]] void continue_in_torch_program(const char* command, const std::string& without = "");

}  // namespace muster::cli
