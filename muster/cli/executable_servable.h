#pragma once

#include "muster/executor/executable_model.h"
#include "muster/server/servable.h"

namespace muster::cli {

/// Loads SavedModels for a server, to be run by the executor.
server::LoadServable executable_loader(const executor::LoadOptions& options);

}  // namespace muster::cli
