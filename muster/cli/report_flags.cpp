#include "muster/cli/report_flags.h"

namespace muster::cli {

void add_report_flags(CLI::App& command, ReportFlags& flags) {
  command.add_option("RUN", flags.runs, "Folders of runs, or with runs below them")->required();
  command.add_option("--output", flags.output, "The HTML file")->required();
  command.add_option("--title", flags.title, "Its title")->capture_default_str();
  command.add_option("--points", flags.points, "Points per curve, at most")
      ->capture_default_str()
      ->check(CLI::Range(10, 20'000));
}

}  // namespace muster::cli
