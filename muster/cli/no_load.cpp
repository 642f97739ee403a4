// In the place of load.cpp where what it stands on is not installed.
#include <memory>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/load_flags.h"

namespace muster::cli {

void add_load(CLI::App& command) {
  const auto flags = std::make_shared<LoadFlags>();
  add_load_flags(command, *flags);
  command.callback([flags] {
    throw Unimplemented(
        "load is not part of this build: nghttp2 or Boost was not there; install libnghttp2-dev "
        "and libboost-dev, and build again");
  });
}

}  // namespace muster::cli
