#pragma once

/// Runs the signatures of exported models.

#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/export_folder.h"
