#pragma once

#include <string>

#include "muster/base/file_system.h"

namespace muster::serving {

/// Origin of an export, a JSON object: of the nearest folder above it that has a record of a
/// run (muster.json), the folder, and of the last record commit, seed, hyperparameters, input
/// files, metrics, step and times. Empty where there is none within some folders above, or it is
/// damaged.
std::string lineage_of(const Path& saved_model);

}  // namespace muster::serving
