#pragma once

#include <string>
#include <vector>

namespace muster::cli {

/// Turns this process into `muster-torch ARGUMENTS...`, the program beside this one that links
/// libtorch. Returns false, with nothing done, if it was not built.
bool exec_torch_program(const std::vector<std::string>& arguments);

}  // namespace muster::cli
