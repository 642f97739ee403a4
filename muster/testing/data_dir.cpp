#include "muster/testing/data_dir.h"

#include <cstdlib>

#include "muster/base/error.h"

namespace muster::testing {

std::optional<std::filesystem::path> data_dir() {
  const char* name = std::getenv("MUSTER_DATA_DIR");
  if (name == nullptr || *name == '\0') return std::nullopt;
  if (!std::filesystem::is_directory(name)) {
    throw NotFound("MUSTER_DATA_DIR is not a folder: {}", name);
  }
  return name;
}

}  // namespace muster::testing
