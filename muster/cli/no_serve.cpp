// In the place of serve.cpp where what it stands on is not installed.
#include <memory>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/serve_flags.h"

namespace muster::cli {

void add_serve(CLI::App& command) {
  const auto flags = std::make_shared<ServeFlags>();
  add_serve_flags(command, *flags);
  command.callback([flags] {
    throw Unimplemented(
        "serve is not part of this build: nghttp2, Boost or OpenSSL was not there; install "
        "libnghttp2-dev, libboost-dev and libssl-dev, and build again");
  });
}

}  // namespace muster::cli
