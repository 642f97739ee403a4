#pragma once

/// SavedModel files as plain structs: reading, checking and writing them, without libtorch.

#include "muster/graph/check.h"
#include "muster/graph/freeze.h"
#include "muster/graph/graph_def.h"
#include "muster/graph/saved_model.h"
