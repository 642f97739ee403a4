#pragma once

#include "muster/cli/serve_flags.h"

namespace muster::cli {

/// `muster serve --nodes N`: this process takes the requests, without libtorch, and nodes, which
/// are forks of muster-torch, answer them. Returns after SIGTERM.
void serve_with_nodes(const ServeFlags& flags);

}  // namespace muster::cli
