// muster-torch: the commands that need libtorch. `muster` execs it; users need not know of it.
#include <fmt/core.h>

#include <cstdlib>
#include <string_view>

#include "muster/base/blas_core.h"
#include "muster/base/program.h"
#include "muster/base/spinning.h"
#include "muster/cli/batch_workers.h"
#include "muster/cli/command.h"
#include "muster/cli/model.h"
#include "muster/cli/run_commands.h"
#include "muster/platform/stores/register_stores.h"
#include "muster/train/engine/arithmetic.h"

namespace {

// Setting of libgomp's waiting that it read when it was loaded.
std::string how_threads_wait() {
  for (const char* variable : {muster::kSpinCountVariable, "OMP_WAIT_POLICY"}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr) return fmt::format("{}={}", variable, value);
  }
  return "libgomp's default";
}

int print_version() {
  const muster::Arithmetic numbers = muster::numerics_fingerprint(/*own_cpu_kernels=*/false);
  fmt::print("libtorch {}, CPU capability {}\n", numbers.libtorch, numbers.cpu_capability);
  fmt::print("BLAS: {}{}{}\n", numbers.blas, numbers.blas_core.empty() ? "" : ", core ",
             numbers.blas_core);
  fmt::print("threads: {}, waiting by {}\n", muster::default_cpu_threads(), how_threads_wait());
  if (const std::string core = muster::better_blas_core(); !core.empty()) {
    fmt::print(stderr,
               "muster: warning: OpenBLAS computes with kernels for {}, and this processor has "
               "those of {}: unset OPENBLAS_CORETYPE\n",
               numbers.blas_core, core);
  }
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
    {"explain", "say what each input adds to an output", muster::cli::add_explain_instances},
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
