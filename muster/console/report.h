#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::console {

struct ReportOptions {
  /// Folders of runs, or with runs below them.
  std::vector<Path> runs{};
  std::string title = "Runs";
  /// Points per curve, at most.
  std::size_t points = 1000;
};

/// Runs as one HTML file: curves, tables, comparisons and the page of each run, as `muster console`
/// shows them, without a server and without a request to any host. Throws NotFound for a folder
/// that is not there or has no run, InvalidArgument for too many runs.
std::string report_html(const ReportOptions& options);

}  // namespace muster::console
