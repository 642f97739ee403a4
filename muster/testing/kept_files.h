#pragma once

#include <filesystem>

namespace muster::testing {

/// The folder tests/compatibility of the checkout that this was built from, with files that earlier
/// versions wrote.
std::filesystem::path kept_files_dir();

}  // namespace muster::testing
