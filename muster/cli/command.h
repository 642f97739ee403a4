#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// One row of a table of commands: `add` puts its flags and its callback under `parent`.
struct Command {
  const char* name;
  const char* summary;
  void (*add)(CLI::App& command);
};

/// Adds a table of commands under `parent`, one of which must be given.
template <typename Table>
void add_commands(CLI::App& parent, const Table& table) {
  for (const Command& command : table)
    command.add(*parent.add_subcommand(command.name, command.summary));
  parent.require_subcommand(1);
}

/// --json, which all commands that print data have: JSON for programs instead of text for
/// people. `what` says what an object is, as in "One JSON object per job".
void add_json_flag(CLI::App& command, bool& as_json, const char* what);

void add_new(CLI::App& command);
void add_fs(CLI::App& command);
void add_records(CLI::App& command);
void add_checkpoint(CLI::App& command);
void add_events(CLI::App& command);
void add_model(CLI::App& command);
void add_export(CLI::App& command);
void add_predict(CLI::App& command);
void add_explain_instances(CLI::App& command);
void add_batch_predict(CLI::App& command);
void add_serve(CLI::App& command);
void add_load(CLI::App& command);
void add_runs(CLI::App& command);
void add_models(CLI::App& command);
void add_versions(CLI::App& command);
void add_cluster(CLI::App& command);
void add_kubernetes(CLI::App& command);
void add_launch(CLI::App& command);
void add_local(CLI::App& command);
void add_local_predict(CLI::App& command);
void add_jobs(CLI::App& command);
void add_tune(CLI::App& command);
void add_console(CLI::App& command);
void add_report(CLI::App& command);
void add_help(CLI::App& command);
void add_completion(CLI::App& command);
void add_man(CLI::App& command);
void add_version(CLI::App& command);

}  // namespace muster::cli
