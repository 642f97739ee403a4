// muster-torch: the commands that need libtorch. `muster` execs it; users need not know of it.
#include <fmt/core.h>

#include <cstdlib>
#include <string_view>

#include "muster/base/program.h"
#include "muster/cli/batch_workers.h"
#include "muster/cli/command.h"
#include "muster/cli/model.h"
#include "muster/cli/run_commands.h"
#include "muster/engine/arithmetic.h"
#include "muster/stores/api.h"

namespace {

int print_version() {
  const muster::Arithmetic numbers = muster::arithmetic(/*own_cpu_kernels=*/false);
  fmt::print("libtorch {}, CPU capability {}\n", numbers.libtorch, numbers.cpu_capability);
  fmt::print("BLAS: {}{}{}\n", numbers.blas, numbers.blas_core.empty() ? "" : ", core ",
             numbers.blas_core);
  if (numbers.reference_blas) {
    fmt::print(stderr,
               "muster: warning: this is the reference BLAS, many times slower than OpenBLAS: "
               "apt-get install libopenblas0-pthread\n");
  }
  return EXIT_SUCCESS;
}

constexpr muster::cli::Command kModelCommands[] = {
    {"run", "compute a signature's outputs", muster::cli::add_model_run},
};

constexpr muster::cli::Command kCommands[] = {
    {"model", "run SavedModels",
     [](CLI::App& command) { muster::cli::add_commands(command, kModelCommands); }},
    {"predict", "answer instances with a SavedModel", muster::cli::add_predict},
    {"batch-predict-worker", "answer shards of a batch prediction",
     muster::cli::add_batch_predict_worker},
    {"serve", "answer requests over REST and gRPC", muster::cli::add_serve},
};

// Can be kept warm: nothing starts a thread before the words of a fork are known.
int run(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "version") return print_version();
  muster::register_stores();
  return muster::cli::run_commands(argc, argv, kCommands, [](CLI::App&) {});
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, run); }
