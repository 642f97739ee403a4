#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "muster/base/spinning.h"
#include "muster/cli/command.h"
#include "muster/cli/program_arguments.h"
#include "muster/cli/run_commands.h"
#include "muster/cli/version.h"
#include "muster/platform/stores/register_stores.h"

namespace muster::cli {
namespace {

constexpr Command kCommands[] = {
    {"records", "write, show, verify, index and time TFRecord files", add_records},
    {"checkpoint", "show, convert and hash checkpoints", add_checkpoint},
    {"events", "show what a run wrote for TensorBoard", add_events},
    {"runs", "list, show and compare what training was made of and what came out", add_runs},
    {"model", "show, run and scan SavedModels", add_model},
    {"export", "write what a training made for other programs", add_export},
    {"predict", "answer instances with a SavedModel, as gcloud's local predict does", add_predict},
    {"batch-predict", "answer files of instances, as gcloud's jobs submit prediction does",
     add_batch_predict},
    {"serve", "answer requests over REST and gRPC, as TensorFlow Serving does", add_serve},
    {"models", "create, list, describe and delete models to be served", add_models},
    {"versions", "create, list and choose the versions of such a model", add_versions},
    {"cluster", "explain what the environment tells a task of its cluster", add_cluster},
    {"launch", "start a program as a cluster on this host, and stop it", add_launch},
    {"kubernetes", "print what a Kubernetes cluster is to run", add_kubernetes},
    {"local", "train or predict here, as gcloud's local train and local predict do", add_local},
    {"jobs", "submit programs to run in the background, follow and cancel them", add_jobs},
    {"tune", "search a program's hyperparameters, as Cloud ML Engine's studies do", add_tune},
    {"console", "show runs, jobs, studies and models in a browser, as they go on", add_console},
    {"report", "write runs as one HTML file, with curves, tables and comparisons", add_report},
    {"new", "make a project of your own from a template", add_new},
    {"fs", "list, print, copy and remove files, also of remote stores", add_fs},
    {"help", "print the help of muster or of a command", add_help},
    {"completion", "print what completes commands and flags in a shell", add_completion},
    {"man", "write the manual pages of all commands", add_man},
    {"version", "print the versions of muster and what it stands on", add_version},
};

void add_flags(CLI::App& app) {
  app.add_flag_callback(
      "--version",
      [] {
        fmt::print("{}\n", version_line());
        throw CLI::Success();
      },
      "Print the version of muster; muster version --all has libtorch's too");
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  muster::limit_spinning_of_children();
  muster::register_stores();
  argc = muster::cli::take_program_arguments(argc, argv);
  return muster::cli::run_commands(argc, argv, muster::cli::kCommands, muster::cli::add_flags);
}
