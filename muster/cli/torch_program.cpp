#include "muster/cli/torch_program.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "muster/base/error.h"

namespace muster::cli {

bool exec_torch_program(const std::vector<std::string>& arguments) {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "muster-torch";
  if (::access(program.c_str(), X_OK) != 0) return false;
  std::vector<char*> argv;
  std::string name = program.string();
  argv.push_back(name.data());
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  throw_errno(errno, fmt::format("starting {}", program.string()));
}

}  // namespace muster::cli
