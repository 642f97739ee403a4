#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "muster/cli/command.h"
#include "muster/cli/program_arguments.h"
#include "muster/cli/run_commands.h"
#include "muster/cli/torch_program.h"

namespace muster::cli {
namespace {

constexpr Command kCommands[] = {
    {"records", "write, show, verify, index and time TFRecord files", add_records},
    {"checkpoint", "show and hash checkpoints", add_checkpoint},
    {"events", "show what a run wrote for TensorBoard", add_events},
    {"model", "show and run SavedModels", add_model},
    {"export", "write what a training made for other programs", add_export},
    {"predict", "answer instances with a SavedModel, as gcloud's local predict does", add_predict},
    {"cluster", "explain what the environment tells a task of its cluster", add_cluster},
    {"launch", "start a program as a cluster on this host, and stop it", add_launch},
    {"local", "run a training program here, as gcloud's local train does", add_local},
    {"completion", "print what completes commands and flags in a shell", add_completion},
    {"man", "write the manual pages of all commands", add_man},
};

// libtorch's part of the answer comes from the program that links it.
void print_version() {
  fmt::print("muster {}\n", MUSTER_VERSION);
  std::fflush(stdout);
  if (!exec_torch_program({"version"})) fmt::print("libtorch: not part of this build\n");
}

void add_flags(CLI::App& app) {
  app.add_flag_callback(
      "--version",
      [] {
        print_version();
        throw CLI::Success();
      },
      "Print the versions of muster, libtorch and the BLAS");
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  argc = muster::cli::take_program_arguments(argc, argv);
  return muster::cli::run_commands(argc, argv, muster::cli::kCommands, muster::cli::add_flags);
}
