#pragma once

/// Runs exported models: a SavedModel's signatures into answers. Exports are found in their folders.

#include "muster/executor/executable_model.h"
#include "muster/graph/export_folder.h"
