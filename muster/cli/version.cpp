#include "muster/cli/version.h"

#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include "muster/cli/command.h"
#include "muster/cli/torch_program.h"

namespace muster::cli {
namespace {

// libtorch takes half a second to load; its part of the answer comes from the program that links
// it.
void print_versions(bool all) {
  fmt::print("{}\n", version_line());
  if (!all) return;
  std::fflush(stdout);
  if (!exec_torch_program({"version"})) fmt::print("libtorch: not part of this build\n");
}

}  // namespace

std::string version_line() { return "muster " MUSTER_VERSION; }

void add_version(CLI::App& command) {
  const auto all = std::make_shared<bool>(false);
  command.add_flag("--all", *all, "Also those of libtorch, the CPU capability and the BLAS");
  command.callback([all] { print_versions(*all); });
}

}  // namespace muster::cli
