#include "muster/cli/program_arguments.h"

#include <algorithm>
#include <string_view>

namespace muster::cli {
namespace {

std::vector<std::string>& taken() {
  static std::vector<std::string> arguments;
  return arguments;
}

bool starts_a_program(std::string_view word) {
  return word == "launch" || word == "local" || word == "jobs" || word == "tune";
}

}  // namespace

int take_program_arguments(int argc, char** argv) {
  char** const end = argv + argc;
  char** const dashes = std::find_if(argv, end, [](std::string_view word) { return word == "--"; });
  if (dashes == end || std::none_of(argv, dashes, starts_a_program)) return argc;
  taken().assign(dashes + 1, end);
  return static_cast<int>(dashes - argv);
}

const std::vector<std::string>& program_arguments() { return taken(); }

}  // namespace muster::cli
