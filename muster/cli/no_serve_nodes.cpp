// In the place of serve_nodes.cpp where what it stands on is not installed.
#include "muster/base/error.h"
#include "muster/cli/serve_nodes.h"

namespace muster::cli {

void serve_with_nodes(const ServeFlags&) {
  throw Unimplemented(
      "serve is not part of this build: nghttp2, Boost or OpenSSL was not there; install "
      "libnghttp2-dev, libboost-dev and libssl-dev, and build again");
}

}  // namespace muster::cli
