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
    {"events", "show TensorBoard event files", add_events},
    {"runs", "list, show and compare runs: code, data, flags and metrics", add_runs},
    {"model", "show, run and scan SavedModels", add_model},
    {"export", "export a trained model for other programs", add_export},
    {"predict", "predict instances with a SavedModel, as gcloud's local predict does", add_predict},
    {"explain", "say what each input of an instance adds to an output of a SavedModel",
     add_explain_instances},
    {"batch-predict", "predict files of instances, as gcloud's jobs submit prediction does",
     add_batch_predict},
    {"serve", "serve models over REST and gRPC, as TensorFlow Serving does", add_serve},
    {"load", "load-test a model server: rates, latency percentiles, errors", add_load},
    {"models", "create, list, describe and delete served models", add_models},
    {"versions", "create, list and choose versions of served models", add_versions},
    {"cluster", "explain a task's environment; check logs of parameter servers", add_cluster},
    {"launch", "start and stop a program as a cluster on this host or others", add_launch},
    {"kubernetes", "print manifests for a Kubernetes cluster", add_kubernetes},
    {"local", "train or predict on this host, as gcloud's local train and local predict do",
     add_local},
    {"jobs", "submit, follow and cancel programs in the background", add_jobs},
    {"tune", "tune a program's hyperparameters, as Cloud ML Engine's studies do", add_tune},
    {"console", "show runs, jobs, studies and models live in a browser", add_console},
    {"report", "write runs as one HTML file, with curves, tables and comparisons", add_report},
    {"new", "create a project from a template", add_new},
    {"fs", "list, print, copy and remove files, local or in remote stores", add_fs},
    {"help", "print the help of muster or of a command", add_help},
    {"completion", "print the completion script of a shell", add_completion},
    {"man", "write manual pages of all commands", add_man},
    {"version", "print the versions of muster and its libraries", add_version},
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
