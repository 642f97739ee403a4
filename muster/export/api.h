#pragma once

/// Export of trained models as SavedModels.

#include "muster/export/export_saved_model.h"
#include "muster/export/exporters.h"
#include "muster/export/graph_hook.h"
#include "muster/export/serving_input.h"
