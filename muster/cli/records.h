#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// The subcommands of `muster records`, one file each.
void add_records_write(CLI::App& command);
void add_records_show(CLI::App& command);
void add_records_analyze(CLI::App& command);
void add_records_verify(CLI::App& command);
void add_records_index(CLI::App& command);
void add_records_synth(CLI::App& command);
void add_records_bench(CLI::App& command);

}  // namespace muster::cli
