#include "muster/testing/kept_files.h"

namespace muster::testing {

std::filesystem::path kept_files_dir() { return MUSTER_KEPT_FILES; }

}  // namespace muster::testing
