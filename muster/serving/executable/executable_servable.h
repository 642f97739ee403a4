#pragma once

#include "muster/saved_model/executor/executable_model.h"
#include "muster/serving/core/servable.h"

namespace muster::serving {

/// Loads SavedModels for a server, to be run by the executor.
serving::LoadServable executable_loader(const executor::LoadOptions& options);

}  // namespace muster::serving
