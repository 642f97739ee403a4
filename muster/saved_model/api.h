#pragma once

/// Runs exported models: a SavedModel's signatures into answers.

#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/export_folder.h"
