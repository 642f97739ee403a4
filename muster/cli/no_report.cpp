// Replaces report.cpp where this build has no console.
#include <memory>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/report_flags.h"

namespace muster::cli {

void add_report(CLI::App& command) {
  const auto flags = std::make_shared<ReportFlags>();
  add_report_flags(command, *flags);
  command.callback([flags] {
    throw Unimplemented(
        "report is not part of this build: nghttp2 or Boost was not there; install libnghttp2-dev "
        "and libboost-dev, and build again");
  });
}

}  // namespace muster::cli
