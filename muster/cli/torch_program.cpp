#include "muster/cli/torch_program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/program.h"

namespace muster::cli {
namespace {

// Empty if it was not built.
Path find_torch_program() {
  const Path program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "muster-torch";
  return ::access(program.c_str(), X_OK) == 0 ? program : Path();
}

[[noreturn]] void throw_not_built(const char* command) {
  throw Unimplemented("{} needs libtorch, which is not part of this build", command);
}

}  // namespace

Path torch_program(const char* command) {
  Path program = find_torch_program();
  if (program.empty()) throw_not_built(command);
  return program;
}

bool exec_torch_program(const std::vector<std::string>& arguments) {
  const Path program = find_torch_program();
  if (program.empty()) return false;
  std::vector<char*> argv;
  std::string name = program.string();
  argv.push_back(name.data());
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  throw_errno(errno, fmt::format("starting {}", program.string()));
}

void continue_in_torch_program(const char* command, const std::string& without) {
  std::vector<std::string> arguments = command_line();
  if (!arguments.empty()) arguments.erase(arguments.begin());
  const auto word = std::find(arguments.begin(), arguments.end(), without);
  if (word != arguments.end() && !without.empty()) arguments.erase(word);
  exec_torch_program(arguments);
  throw_not_built(command);
}

}  // namespace muster::cli
