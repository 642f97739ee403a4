#pragma once

#include "muster/saved_model/executor/executable_model.h"
#include "muster/serving/core/servable.h"

namespace muster::serving {

/// Loads versions for a server: SavedModels, which the executor runs, and TorchScript files.
serving::LoadServable executable_loader(const executor::LoadOptions& options);

}  // namespace muster::serving
