#include "muster/base/system_identity.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace muster {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string line;
  std::getline(file, line);
  return line;
}

std::string own_namespace(const std::string& kind) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/" + kind, error).string();
}

}  // namespace muster
