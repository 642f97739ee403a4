#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace muster::cli {

struct ReportFlags {
  std::vector<std::string> runs{};
  std::string output{};
  std::string title = "Runs";
  std::size_t points = 1000;
};

/// The flags of `muster report`, also where this build has no console.
void add_report_flags(CLI::App& command, ReportFlags& flags);

}  // namespace muster::cli
