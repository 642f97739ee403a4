// `muster report`: runs as one HTML file.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/cli/command.h"
#include "muster/cli/report_flags.h"
#include "muster/console/report.h"

namespace muster::cli {

void add_report(CLI::App& command) {
  const auto flags = std::make_shared<ReportFlags>();
  add_report_flags(command, *flags);
  command.callback([flags] {
    if (flags->output.empty()) throw UsageError("--output: give the name of an HTML file");
    console::ReportOptions options{.title = flags->title, .points = flags->points};
    options.runs.assign(flags->runs.begin(), flags->runs.end());
    const std::string html = console::report_html(options);
    write_file_atomically(flags->output, html);
    log::info("wrote a report path={} bytes={}", flags->output, html.size());
  });
}

}  // namespace muster::cli
